/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives built here byte by byte, so that the right answer is known without another program.
 * `test_archive --serve` answers archive_judge.py instead, which compares with Python's own
 * readers.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "archive.h"
#include "check.h"
#include "image.h"

enum { MEMBERS = 64 };

/* A file being built in memory. */
struct file {
    uint8_t b[1 << 20];
    size_t n;
};
static struct file file_a, file_b;

struct seen {
    char name[MEMBERS][300];
    struct archive_member m[MEMBERS];
    size_t n, stop_at;
    struct archive_result res;
    struct slimset_error err;
    enum slimset_status st;
};
static struct seen seen;

static enum slimset_status take(void *arg, const struct archive_member *m,
                                struct slimset_error *err)
{
    struct seen *s = arg;
    if (s->n < MEMBERS) {
        const size_t k = m->name_bytes < 299 ? m->name_bytes : 299;
        memcpy(s->name[s->n], m->name, k);
        s->name[s->n][k] = 0;
        s->m[s->n] = *m;
    }
    s->n++;
    if (s->stop_at != 0 && s->n == s->stop_at)
        return err_set(err, SLIMSET_INTERRUPTED, "enough");
    return SLIMSET_OK;
}

static int to_fd(const void *p, size_t n)
{
    const int fd = memfd_create("archive", 0);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n) {
        perror("memfd");
        exit(2);
    }
    return fd;
}

static void list_limits(const struct file *f, enum image_format format, int depth, int spool,
                        const struct archive_limits *limits)
{
    const size_t stop_at = seen.stop_at;
    memset(&seen, 0, sizeof seen);
    seen.stop_at = stop_at;
    const int fd = to_fd(f->b, f->n);
    seen.st =
        archive_list(fd, 0, f->n, format, depth, spool, limits, take, &seen, &seen.res, &seen.err);
    close(fd);
    seen.stop_at = 0;
}

static void list(const struct file *f, enum image_format format)
{
    list_limits(f, format, 0, -1, NULL);
}

static void put(struct file *f, const void *p, size_t n)
{
    if (n != 0)
        memcpy(f->b + f->n, p, n);
    f->n += n;
}

/* ---- tar ---- */

static void seal(uint8_t *h)
{
    unsigned sum = 8 * ' ';
    for (int i = 0; i < 512; i++)
        if (i < 148 || i >= 156)
            sum += h[i];
    char field[9];
    snprintf(field, sizeof field, "%06o", sum & 0777777);
    memcpy(h + 148, field, 7);
    h[155] = ' ';
}

static uint8_t *tar_add(struct file *f, const char *name, char type, const char *link,
                        const void *data, size_t n)
{
    uint8_t *h = f->b + f->n;
    memset(h, 0, 512);
    strncpy((char *)h, name, 100);
    memcpy(h + 100, "0000644", 8);
    char field[16];
    snprintf(field, sizeof field, "%011zo", n);
    memcpy(h + 124, field, 12);
    memcpy(h + 136, "14472613455", 12);
    h[156] = (uint8_t)type;
    strncpy((char *)h + 157, link, 100);
    memcpy(h + 257, "ustar\00000", 8);
    seal(h);
    f->n += 512;
    if (n != 0)
        put(f, data, n);
    while (f->n % 512 != 0)
        f->b[f->n++] = 0;
    return h;
}

static void tar_end(struct file *f)
{
    memset(f->b + f->n, 0, 1024);
    f->n += 1024;
}

static void test_tar_plain(void)
{
    struct file *f = &file_a;
    f->n = 0;
    tar_add(f, "a/", '5', "", NULL, 0);
    tar_add(f, "a/one.jpg", '0', "", "12345", 5);
    uint8_t *h = tar_add(f, "base256", '0', "", "xyz", 3);
    memcpy(h + 124, "\x80\0\0\0\0\0\0\0\0\0\0\x03", 12);
    memcpy(h + 136, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 12);
    seal(h);
    h = tar_add(f, "name", '0', "", "", 0);
    memcpy(h + 345, "front/part", 10);
    seal(h);
    tar_end(f);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.st, SLIMSET_OK);
    CHECK_INT(seen.n, 3);
    CHECK_INT(seen.res.members, 3);
    CHECK(!seen.res.damaged && !seen.res.no_end_marker && !seen.res.concatenated);
    CHECK_STR(seen.name[0], "a/one.jpg");
    CHECK_INT(seen.m[0].offset, 1024);
    CHECK_INT(seen.m[0].bytes, 5);
    CHECK_INT(seen.m[0].mtime_s, 1693128493); /* octal 14472613455 */
    CHECK_STR(seen.name[1], "base256");
    CHECK_INT(seen.m[1].bytes, 3);
    CHECK_INT(seen.m[1].mtime_s, -2);
    CHECK_STR(seen.name[2], "front/part/name");
    CHECK_INT(seen.m[2].problem, SLIMSET_REJECT_NONE);
}

static void test_tar_kinds(void)
{
    static const struct {
        char type;
        enum slimset_reject problem;
    } kind[] = {{'2', SLIMSET_REJECT_LINK},        {'3', SLIMSET_REJECT_NOT_REGULAR},
                {'4', SLIMSET_REJECT_NOT_REGULAR}, {'6', SLIMSET_REJECT_NOT_REGULAR},
                {'7', SLIMSET_REJECT_NONE},        {0, SLIMSET_REJECT_NONE},
                {'S', SLIMSET_REJECT_UNSUPPORTED}, {'M', SLIMSET_REJECT_UNSUPPORTED},
                {'Z', SLIMSET_REJECT_UNSUPPORTED}};
    struct file *f = &file_a;
    f->n = 0;
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
        char name[] = {'n', (char)('a' + i), 0};
        const bool data = strchr("7SMZ", kind[i].type) != NULL || kind[i].type == 0;
        tar_add(f, name, kind[i].type, "/etc/passwd", "data", data ? 4 : 0);
    }
    tar_add(f, "vol", 'V', "", "", 0);
    tar_end(f);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, sizeof kind / sizeof kind[0]);
    for (size_t i = 0; i < seen.n; i++)
        CHECK_INT(seen.m[i].problem, kind[i].problem);
}

static void test_tar_links(void)
{
    struct file *f = &file_a;
    f->n = 0;
    tar_add(f, "early", '1', "t", "", 0);
    tar_add(f, "t", '0', "", "first", 5);
    tar_add(f, "l1", '1', "./t", "", 0);
    tar_add(f, "l2", '1', "l1", "", 0);
    tar_add(f, "t", '0', "", "second!", 7);
    tar_add(f, "l3", '1', "t", "", 0);
    tar_add(f, "l4", '1', "nowhere", "", 0);
    tar_add(f, "own", '1', "t", "with data", 9);
    tar_end(f);
    list(f, FORMAT_TAR);
    static const enum slimset_reject want[] = {
        SLIMSET_REJECT_LINK, SLIMSET_REJECT_DUPLICATE, 0, 0, 0, 0, SLIMSET_REJECT_LINK, 0};
    static const int offset[] = {0, 1024, 1024, 1024, 3072, 3072, 0, 5120},
                     bytes[] = {0, 5, 5, 5, 7, 7, 0, 9};
    CHECK_INT(seen.n, 8);
    for (size_t i = 0; i < 8; i++) {
        CHECK_INT(seen.m[i].problem, want[i]);
        if (want[i] == 0) {
            CHECK_INT(seen.m[i].offset, offset[i]);
            CHECK_INT(seen.m[i].bytes, bytes[i]);
        }
    }
}

static void test_tar_pax(void)
{
    struct file *f = &file_a;
    f->n = 0;
    const char g[] = "16 mtime=-77.25\n23 comment=hello world\n";
    const char x[] = "16 path=d/caf\xc3\xa9\n10 size=3\n",
               bad[] = "17 path=d/caf\xc3\xa9\n10 size=3\n";
    tar_add(f, "pax_global_header", 'g', "", g, sizeof g - 1);
    tar_add(f, "x", 'x', "", x, sizeof x - 1);
    uint8_t *h = tar_add(f, "short", '0', "", "abc", 3);
    memcpy(h + 124, "00000000000", 12); /* the size is in the pax header only */
    seal(h);
    const char sparse[] =
        "22 GNU.sparse.major=1\n25 GNU.sparse.name=holes\n26 GNU.sparse.realsize=99\n";
    tar_add(f, "x", 'x', "", sparse, sizeof sparse - 1);
    tar_add(f, "GNUSparseFile.0/holes", '0', "", "map", 3);
    tar_add(f, "next", '0', "", "", 0);
    tar_end(f);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, 3);
    CHECK_STR(seen.name[0], "d/caf\xc3\xa9");
    CHECK_INT(seen.m[0].bytes, 3);
    CHECK_INT(seen.m[0].mtime_s, -78);
    CHECK_STR(seen.name[1], "holes");
    CHECK_INT(seen.m[1].problem, SLIMSET_REJECT_UNSUPPORTED);
    CHECK_STR(seen.name[2], "next");
    CHECK(!seen.res.damaged);
    /* A line length that does not fit ends the listing. */
    f->n = 0;
    tar_add(f, "good", '0', "", "abc", 3);
    tar_add(f, "x", 'x', "", bad, sizeof bad - 1);
    tar_add(f, "lost", '0', "", "abc", 3);
    tar_end(f);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.res.damage, "damaged pax header at byte 1024");
}

static void test_tar_ends(void)
{
    struct file *f = &file_a;
    f->n = 0;
    tar_add(f, "a", '0', "", "abc", 3);
    const size_t cut = f->n;
    list(f, FORMAT_TAR);
    CHECK(seen.res.no_end_marker && !seen.res.damaged && seen.n == 1);
    f->n = 512 + 3; /* padding missing */
    list(f, FORMAT_TAR);
    CHECK(seen.res.no_end_marker && !seen.res.damaged && seen.n == 1);
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_NONE);
    f->n = 512 + 2;
    list(f, FORMAT_TAR);
    CHECK(seen.res.damaged && seen.n == 1);
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_TRUNCATED);
    CHECK_INT(seen.m[0].packed_bytes, 2);
    f->n = cut;
    tar_end(f);
    memset(f->b + f->n, 0, 4096);
    f->n += 4096;
    tar_add(f, "b", '0', "", "x", 1);
    tar_end(f);
    list(f, FORMAT_TAR);
    CHECK(seen.res.concatenated && !seen.res.no_end_marker && !seen.res.damaged && seen.n == 2);
    CHECK_STR(seen.name[1], "b");
    f->b[cut + 1024 + 4096 + 3] ^= 1; /* the second archive's first header */
    list(f, FORMAT_TAR);
    CHECK(!seen.res.concatenated && seen.res.damaged && seen.n == 1);
    memset(f->b, 0, 10240);
    f->n = 10240;
    list(f, FORMAT_TAR);
    CHECK(seen.st == SLIMSET_OK && seen.n == 0 && !seen.res.no_end_marker);
    f->n = 0;
    list(f, FORMAT_TAR);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_EMPTY);
    memset(f->b, 'x', 2048);
    f->n = 2048;
    list(f, FORMAT_TAR);
    CHECK_INT(seen.st, SLIMSET_BAD_INPUT);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_CORRUPT);
}

static void test_tar_damage(void)
{
    struct file *f = &file_a;
    f->n = 0;
    tar_add(f, "a", '0', "", "abc", 3);
    uint8_t *h = tar_add(f, "b", '0', "", "abc", 3);
    tar_add(f, "c", '0', "", "abc", 3);
    tar_end(f);
    h[0] = 'x';
    list(f, FORMAT_TAR);
    CHECK_INT(seen.st, SLIMSET_OK);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.res.damage, "damaged tar header at byte 1024");
    memset(h, 0, 512);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.res.damage, "a lone zero block at byte 1024 of the tar, with bytes behind it");
    /* A size that would wrap, and one that is negative. */
    f->n = 0;
    tar_add(f, "a", '0', "", "abc", 3);
    h = tar_add(f, "b", '0', "", "abc", 3);
    memcpy(h + 124, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12);
    seal(h);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, 2);
    CHECK_INT(seen.m[1].problem, SLIMSET_REJECT_TRUNCATED);
    memcpy(h + 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 12);
    seal(h);
    list(f, FORMAT_TAR);
    CHECK_INT(seen.n, 1);
    CHECK(seen.res.damaged);
}

static void test_names(void)
{
    static const struct {
        const char *stored, *want;
        bool good;
    } name[] = {{"./a", "a", true},
                {"/abs/b", "abs/b", true},
                {"././/x//y/./z", "x/y/z", true},
                {"../up", "../up", false},
                {"a/../b", "a/../b", false},
                {"a/..", "a/..", false},
                {"..a/b..", "..a/b..", true},
                {"C:\\x", "C:\\x", false},
                {"/c:/x", "/c:/x", false},
                {"d/c:x", "d/c:x", true},
                {"back\\slash", "back\\slash", true},
                {"new\nline", "new\nline", true},
                {"lat\xefn", "lat\xefn", true},
                {".", ".", false},
                {"/", NULL, false},
                {"sp ace ", "sp ace ", true},
                {"a/.", "a", true},
                {"...", "...", true}};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        struct file *f = &file_a;
        f->n = 0;
        tar_add(f, name[i].stored, '0', "", "q", 1);
        tar_end(f);
        list(f, FORMAT_TAR);
        CHECK_INT(seen.n, 1);
        CHECK_STR(seen.name[0], name[i].want != NULL ? name[i].want : name[i].stored);
        CHECK_INT(seen.m[0].problem, name[i].good ? SLIMSET_REJECT_NONE : SLIMSET_REJECT_NAME);
    }
    struct archive_limits few = archive_limits_default;
    few.max_name_bytes = 5;
    file_a.n = 0;
    tar_add(&file_a, "12/45", '0', "", "", 0);
    tar_add(&file_a, "12/456", '0', "", "", 0);
    tar_end(&file_a);
    list_limits(&file_a, FORMAT_TAR, 0, -1, &few);
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_NONE);
    CHECK_INT(seen.m[1].problem, SLIMSET_REJECT_NAME);
    CHECK_STR(seen.name[1], "12/45");
}

/* ---- zip ---- */

struct zipped {
    const char *name;
    uint16_t flags, method;
    const void *packed;
    uint32_t packed_n, n, crc, attr;
    uint8_t host;
    const void *extra; /* of the central directory */
    uint16_t extra_n;
    uint32_t local_plus1; /* share this local header (offset + 1) instead of writing one */
};

static void put16(struct file *f, unsigned v)
{
    put_le16(f->b + f->n, (uint16_t)v);
    f->n += 2;
}

static void put32(struct file *f, uint32_t v)
{
    put_le32(f->b + f->n, v);
    f->n += 4;
}

/* `lie` is added to every offset. */
static void zip_build(struct file *f, const struct zipped *z, size_t n, uint32_t lie)
{
    uint32_t local[MEMBERS];
    for (size_t i = 0; i < n; i++) {
        local[i] = z[i].local_plus1 != 0 ? z[i].local_plus1 - 1 : (uint32_t)f->n;
        if (z[i].local_plus1 != 0)
            continue;
        put32(f, 0x04034b50);
        put16(f, 20), put16(f, z[i].flags), put16(f, z[i].method), put32(f, 0);
        put32(f, z[i].crc), put32(f, z[i].packed_n), put32(f, z[i].n);
        put16(f, (unsigned)strlen(z[i].name)), put16(f, 7); /* an extra field the directory lacks */
        put(f, z[i].name, strlen(z[i].name));
        put(f, "\xfe\xca\x03\0abc", 7);
        put(f, z[i].packed, z[i].packed_n);
    }
    const uint32_t dir = (uint32_t)f->n;
    for (size_t i = 0; i < n; i++) {
        put32(f, 0x02014b50);
        put16(f, (unsigned)z[i].host << 8 | 20), put16(f, 20), put16(f, z[i].flags),
            put16(f, z[i].method);
        put16(f, 14 << 11 | 5 << 5 | 3), put16(f, 43 << 9 | 7 << 5 | 19); /* 2023-07-19 14:05:06 */
        put32(f, z[i].crc), put32(f, z[i].packed_n), put32(f, z[i].n);
        put16(f, (unsigned)strlen(z[i].name)), put16(f, z[i].extra_n), put16(f, 0);
        put16(f, 0), put16(f, 0), put32(f, z[i].attr), put32(f, local[i] + lie);
        put(f, z[i].name, strlen(z[i].name));
        put(f, z[i].extra, z[i].extra_n);
    }
    const uint32_t dir_n = (uint32_t)f->n - dir;
    put32(f, 0x06054b50);
    put16(f, 0), put16(f, 0), put16(f, (unsigned)n), put16(f, (unsigned)n);
    put32(f, dir_n), put32(f, dir + lie), put16(f, 0);
}

/* "hello" deflated (RFC 1951, fixed codes), its CRC-32, and the check value of the CRC's
 * catalogues. */
static const uint8_t HELLO[] = {0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00};
static const uint32_t HELLO_CRC = 0x3610a686, DIGITS_CRC = 0xcbf43926;

static void test_crc_inflate(void)
{
    struct slimset_error err;
    uint8_t out[16], packed[sizeof HELLO + 1];
    CHECK(archive_crc32(0, (const uint8_t *)"123456789", 9) == DIGITS_CRC);
    CHECK(archive_crc32(archive_crc32(0, (const uint8_t *)"1234", 4), (const uint8_t *)"56789",
                        5) == DIGITS_CRC);
    CHECK(archive_crc32(7, NULL, 0) == 7);
    CHECK_INT(archive_inflate(HELLO, sizeof HELLO, out, 5, &err), SLIMSET_OK);
    CHECK(memcmp(out, "hello", 5) == 0);
    CHECK_INT(archive_inflate((const uint8_t *)"\x03", 2, NULL, 0, &err), SLIMSET_OK);
    for (size_t n = 0; n < sizeof HELLO; n++) {
        CHECK_INT(archive_inflate(HELLO, n, out, 5, &err), SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    }
    CHECK_INT(archive_inflate(HELLO, sizeof HELLO, out, 4, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    CHECK_INT(archive_inflate(HELLO, sizeof HELLO, out, 6, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    memcpy(packed, HELLO, sizeof HELLO);
    packed[sizeof HELLO] = 0;
    CHECK_INT(archive_inflate(packed, sizeof packed, out, 5, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    packed[0] = 7; /* block type 3 */
    CHECK_INT(archive_inflate(packed, sizeof HELLO, out, 5, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
}

static void test_zip_plain(void)
{
    const struct zipped z[] = {
        {.name = "dir/", .packed = ""},
        {.name = "dir/stored", .packed = "123456789", .packed_n = 9, .n = 9, .crc = DIGITS_CRC},
        {.name = "hello",
         .method = 8,
         .packed = HELLO,
         .packed_n = 7,
         .n = 5,
         .crc = HELLO_CRC,
         .flags = 8},
        {.name = "old", .packed = ""},
    };
    struct zipped y[4];
    memcpy(y, z, sizeof z);
    /* The Unicode name counts when it holds the CRC of the plain name. */
    uint8_t extra[16] = {0x75, 0x70, 8, 0, 1};
    put_le32(extra + 5, archive_crc32(0, (const uint8_t *)"old", 3));
    memcpy(extra + 9, "\xc3\xb6l", 3);
    y[3].extra = extra;
    y[3].extra_n = 12;
    struct file *f = &file_a;
    for (int lie = 0; lie < 2; lie++) {
        f->n = 0;
        if (lie)
            put(f, "#!/bin/sh\nexit\n", 15); /* a prefix the offsets know nothing of */
        zip_build(f, y, 4, lie ? (uint32_t)-15 : 0);
        list(f, FORMAT_ZIP);
        CHECK_INT(seen.st, SLIMSET_OK);
        CHECK_INT(seen.n, 3);
        CHECK(!seen.res.damaged);
        CHECK_STR(seen.name[0], "dir/stored");
        CHECK_STR(seen.name[1], "hello");
        CHECK_STR(seen.name[2], "\xc3\xb6l");
        CHECK_INT(seen.m[0].mtime_s, 1689775506); /* date -ud '2023-07-19 14:05:06' +%s */
        const int fd = to_fd(f->b, f->n);
        uint64_t at = 0;
        struct slimset_error err;
        uint8_t out[8];
        CHECK_INT(archive_data_offset(fd, &seen.m[0], &at, &err), SLIMSET_OK);
        CHECK(memcmp(f->b + at, "123456789", 9) == 0);
        CHECK_INT(archive_data_offset(fd, &seen.m[1], &at, &err), SLIMSET_OK);
        CHECK_INT(seen.m[1].method, ARCHIVE_DEFLATE);
        CHECK_INT(archive_inflate(f->b + at, seen.m[1].packed_bytes, out, seen.m[1].bytes, &err),
                  SLIMSET_OK);
        CHECK(memcmp(out, "hello", 5) == 0);
        seen.m[1].offset++;
        CHECK_INT(archive_data_offset(fd, &seen.m[1], &at, &err), SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
        seen.m[0].packed_bytes = 1 << 20;
        CHECK_INT(archive_data_offset(fd, &seen.m[0], &at, &err), SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
        seen.m[0].offset = UINT64_MAX;
        CHECK_INT(archive_data_offset(fd, &seen.m[0], &at, &err), SLIMSET_BAD_INPUT);
        close(fd);
        CHECK_INT(archive_data_offset(fd, &seen.m[0], &at, &err), SLIMSET_IO);
    }
}

static void test_zip_problems(void)
{
    const struct zipped z[] = {
        {.name = "encrypted", .flags = 1, .packed = "x", .packed_n = 1, .n = 1},
        {.name = "aes", .method = 99, .packed = "x", .packed_n = 1, .n = 1},
        {.name = "bzip2", .method = 12, .packed = "x", .packed_n = 1, .n = 9},
        {.name = "link",
         .packed = "/etc",
         .packed_n = 4,
         .n = 4,
         .host = 3,
         .attr = 0120777u << 16},
        {.name = "fifo", .packed = "", .host = 3, .attr = 0010644u << 16},
        {.name = "sizes", .packed = "xy", .packed_n = 2, .n = 3},
        {.name = "bomb", .method = 8, .packed = "x", .packed_n = 1, .n = 2 << 20},
        {.name = "outside", .packed = "x", .packed_n = 1, .n = 1, .local_plus1 = 1u << 30},
        {.name = "../x", .packed = "x", .packed_n = 1, .n = 1},
        {.name = "", .packed = "x", .packed_n = 1, .n = 1},
        {.name = "slash/", .packed = "x", .packed_n = 1, .n = 1},
        {.name = "dosdir", .packed = "", .attr = 0x10},
        {.name = "twice", .packed = "x", .packed_n = 1, .n = 1},
        {.name = "./twice", .packed = "x", .packed_n = 1, .n = 1},
        {.name = "dos/symlink?",
         .packed = "x",
         .packed_n = 1,
         .n = 1,
         .host = 0,
         .attr = 0120777u << 16},
    };
    static const enum slimset_reject want[] = {SLIMSET_REJECT_ENCRYPTED,
                                               SLIMSET_REJECT_ENCRYPTED,
                                               SLIMSET_REJECT_UNSUPPORTED,
                                               SLIMSET_REJECT_LINK,
                                               SLIMSET_REJECT_NOT_REGULAR,
                                               SLIMSET_REJECT_CORRUPT,
                                               SLIMSET_REJECT_RATIO,
                                               SLIMSET_REJECT_CORRUPT,
                                               SLIMSET_REJECT_NAME,
                                               SLIMSET_REJECT_NAME,
                                               SLIMSET_REJECT_NAME,
                                               SLIMSET_REJECT_DUPLICATE,
                                               0,
                                               0};
    file_a.n = 0;
    zip_build(&file_a, z, sizeof z / sizeof z[0], 0);
    list(&file_a, FORMAT_ZIP);
    CHECK_INT(seen.st, SLIMSET_OK);
    CHECK_INT(seen.n, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < seen.n; i++)
        CHECK_INT(seen.m[i].problem, want[i]);
}

static void test_zip_overlap(void)
{
    /* Three entries on one local header, then one that begins inside another's data; out of
     * order. */
    static uint8_t body[100];
    struct zipped z[] = {
        {.name = "last", .packed = body, .packed_n = 100, .n = 100},
        {.name = "same1", .packed = body, .packed_n = 100, .n = 100, .local_plus1 = 1},
        {.name = "same2", .packed = body, .packed_n = 100, .n = 100, .local_plus1 = 1},
        {.name = "inside", .packed = body, .packed_n = 1, .n = 1, .local_plus1 = 60},
        {.name = "free", .packed = body, .packed_n = 3, .n = 3},
    };
    file_a.n = 0;
    zip_build(&file_a, z, 5, 0);
    list(&file_a, FORMAT_ZIP);
    static const enum slimset_reject want[] = {0, SLIMSET_REJECT_RATIO, SLIMSET_REJECT_RATIO,
                                               SLIMSET_REJECT_RATIO, 0};
    CHECK_INT(seen.n, 5);
    for (size_t i = 0; i < 5; i++)
        CHECK_INT(seen.m[i].problem, want[i]);
    /* Out of order alone is fine. */
    file_a.n = 0;
    struct zipped y[2] = {{.name = "b", .packed = body, .packed_n = 9, .n = 9, .local_plus1 = 39},
                          {.name = "a", .packed = body, .packed_n = 1, .n = 1, .local_plus1 = 1}};
    memset(file_a.b, 0, 200);
    file_a.n = 200;
    zip_build(&file_a, y, 2, 0);
    list(&file_a, FORMAT_ZIP);
    CHECK_INT(seen.n, 2);
    CHECK(seen.m[0].problem == 0 && seen.m[1].problem == 0);
}

static void test_zip_refused(void)
{
    const struct zipped z[] = {{.name = "a", .packed = "x", .packed_n = 1, .n = 1}};
    struct file *f = &file_a;
    f->n = 0;
    zip_build(f, z, 1, 0);
    const size_t eocd = f->n - 22;
    f->b[eocd + 4] = 2;
    list(f, FORMAT_ZIP);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_UNSUPPORTED);
    f->b[eocd + 4] = 0;
    f->b[eocd + 10] = 9;
    list(f, FORMAT_ZIP);
    CHECK_STR(seen.res.damage, "zip directory announces 9 entries, 1 are there");
    f->b[eocd + 10] = 1;
    f->b[eocd + 12] = 0xf0;
    f->b[eocd + 13] = 0xff;
    list(f, FORMAT_ZIP);
    CHECK_INT(seen.st, SLIMSET_BAD_INPUT);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_CORRUPT);
    f->n = 0;
    zip_build(f, NULL, 0, 0);
    list(f, FORMAT_ZIP);
    CHECK(seen.st == SLIMSET_OK && seen.n == 0 && !seen.res.damaged);
    f->n = 10;
    list(f, FORMAT_ZIP);
    CHECK_INT(seen.st, SLIMSET_BAD_INPUT);
    memset(f->b, 'q', 5000);
    f->n = 5000;
    list(f, FORMAT_ZIP);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_TRUNCATED);
    CHECK(strstr(seen.err.text, "no end record") != NULL);
    f->n = 0;
    list(f, FORMAT_ZIP);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_EMPTY);
}

/* ---- limits, nesting, errors ---- */

static void test_limits(void)
{
    struct archive_limits lim = archive_limits_default;
    struct file *f = &file_a;
    f->n = 0;
    for (int i = 0; i < 9; i++) {
        char name[] = {'m', (char)('0' + i), 0};
        tar_add(f, name, '0', "", "0123456789", 10);
    }
    tar_add(f, "hard", '1', "m0", "", 0);
    tar_end(f);
    lim.max_members = 10;
    list_limits(f, FORMAT_TAR, 0, -1, &lim);
    CHECK(seen.st == SLIMSET_OK && seen.n == 10);
    lim.max_members = 9;
    list_limits(f, FORMAT_TAR, 0, -1, &lim);
    CHECK(seen.st == SLIMSET_BAD_INPUT && seen.err.reject == SLIMSET_REJECT_TOO_LARGE &&
          seen.n == 0);
    lim = archive_limits_default;
    lim.max_total_bytes = 95;
    list_limits(f, FORMAT_TAR, 0, -1, &lim);
    CHECK_INT(seen.m[8].problem, SLIMSET_REJECT_NONE);
    CHECK_INT(seen.m[9].problem, SLIMSET_REJECT_TOO_LARGE);
    lim.max_member_bytes = 9;
    list_limits(f, FORMAT_TAR, 0, -1, &lim);
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_TOO_LARGE);
    seen.stop_at = 3;
    list(f, FORMAT_TAR);
    CHECK(seen.st == SLIMSET_INTERRUPTED && seen.n == 3);
    list(f, FORMAT_GZIP);
    CHECK_INT(seen.st, SLIMSET_USAGE);
    CHECK_INT(archive_list(-1, 0, 1024, FORMAT_TAR, 0, -1, NULL, take, &seen, &seen.res, &seen.err),
              SLIMSET_IO);
    CHECK_INT(seen.err.os_errno, EBADF);
    /* The file is shorter than was said: it shrank. */
    const int fd = to_fd(f->b, 512 * 3);
    seen.n = 0;
    CHECK_INT(archive_list(fd, 0, f->n, FORMAT_TAR, 0, -1, NULL, take, &seen, &seen.res, &seen.err),
              SLIMSET_BAD_INPUT);
    CHECK_INT(seen.err.reject, SLIMSET_REJECT_TRUNCATED);
    CHECK_INT(seen.n, 0);
    close(fd);
}

static void test_nesting(void)
{
    struct file *in = &file_b, *f = &file_a;
    in->n = 0;
    tar_add(in, "./x", '0', "", "XX", 2);
    tar_add(in, "hl", '1', "x", "", 0);
    tar_add(in, "deeper.tar", '0', "", in->b, 1024);
    tar_end(in);
    f->n = 0;
    tar_add(f, "n01.tar", '0', "", in->b, in->n);
    tar_add(f, "d/N02.TAR", '0', "", in->b, in->n);
    tar_add(f, "n01.tar", '0', "", in->b, in->n);
    tar_add(f, "n03.npz", '0', "", in->b, in->n);
    tar_add(f, "text.tar", '0', "", "no archive", 10);
    tar_add(f, "x.tar.npz", '0', "", in->b, in->n);
    tar_add(f, "n01/x", '0', "", "later", 5);
    tar_add(f, ".tar", '0', "", in->b, in->n);
    tar_end(f);
    list_limits(f, FORMAT_TAR, 1, -1, NULL);
    static const char *const want[] = {
        "n01.tar",        "d/N02/x", "d/N02/hl", "d/N02/deeper.tar", "n01/x", "n01/hl",
        "n01/deeper.tar", "n03.npz", "text.tar", "x.tar.npz",        "n01/x", ".tar"};
    CHECK_INT(seen.n, 12);
    for (size_t i = 0; i < 12 && i < seen.n; i++)
        CHECK_STR(seen.name[i], want[i]);
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_DUPLICATE);
    CHECK_INT(seen.m[4].problem, SLIMSET_REJECT_DUPLICATE);
    CHECK_INT(seen.m[10].problem, SLIMSET_REJECT_NONE);
    CHECK_INT(seen.m[2].problem, SLIMSET_REJECT_NONE);
    CHECK_INT(seen.m[2].offset, 512 + in->n + 512 + 512);
    CHECK(!seen.m[2].in_spool);
    CHECK(memcmp(f->b + seen.m[1].offset, "XX", 2) == 0);
    list_limits(f, FORMAT_TAR, 0, -1, NULL);
    CHECK_INT(seen.n, 8);
    /* A damaged one inside: its good members and a word. */
    f->n = 0;
    tar_add(f, "bad\n.tar", '0', "", in->b, 1024 + 100);
    tar_end(f);
    list_limits(f, FORMAT_TAR, 1, -1, NULL);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.res.damage, "in bad?/: tar ends inside the header at byte 1536");
    /* An inner zip that is none after all keeps its place. */
    f->n = 0;
    tar_add(f, "z.zip", '0', "", "PK\3\4 and then nothing of the sort", 34);
    tar_end(f);
    list_limits(f, FORMAT_TAR, 1, -1, NULL);
    CHECK_INT(seen.n, 1);
    CHECK_STR(seen.name[0], "z.zip");
    CHECK_INT(seen.m[0].problem, SLIMSET_REJECT_TRUNCATED);
}

struct space {
    uint64_t asked;
    int calls, refuse_at;
};

static enum slimset_status space(void *arg, uint64_t next_bytes, struct slimset_error *err)
{
    struct space *s = arg;
    s->asked += next_bytes;
    if (++s->calls == s->refuse_at)
        return err_set(err, SLIMSET_LIMIT, "disk is full");
    return SLIMSET_OK;
}

static enum slimset_status spool_bytes(const void *p, size_t n, uint64_t max, struct space *s,
                                       uint8_t *out, uint64_t *out_n, struct slimset_error *err)
{
    const int fd = to_fd(p, n), to = memfd_create("spool", 0);
    const enum slimset_status st =
        archive_spool(fd, 0, n, FORMAT_GZIP, to, max, space, s, out_n, err);
    if (out != NULL && *out_n != 0 && pread(to, out, *out_n, 0) != (ssize_t)*out_n)
        exit(2);
    close(fd);
    close(to);
    return st;
}

/* A spool that does not fit is the disk's fault: no input is blamed. */
static void test_spool_space(void)
{
    struct slimset_error err = {0};
    FILE *f = tmpfile();
    CHECK(f != NULL);
    int fd = fileno(f);
    CHECK_INT(archive_check_space(&fd, 0, &err), SLIMSET_OK);
    CHECK_INT(archive_check_space(&fd, (uint64_t)1 << 62, &err), SLIMSET_IO);
    CHECK_INT(err.os_errno, ENOSPC);
    fclose(f);
    fd = memfd_create("unlimited", 0); /* says 0 of 0 blocks */
    CHECK_INT(archive_check_space(&fd, 1, &err), SLIMSET_OK);
    close(fd);
}

static void test_spool_gzip(void)
{
    /* extra, name, comment and header CRC, two members, zeros behind */
    struct file *f = &file_a;
    uint8_t out[64];
    uint64_t n;
    struct slimset_error err;
    struct space s = {0};
    f->n = 0;
    put(f,
        "\x1f\x8b\x08\x1e\0\0\0\0\0\xff\x02\0ab"
        "name\0"
        "comment\0"
        "zz",
        10 + 4 + 5 + 8 + 2);
    put(f, HELLO, sizeof HELLO);
    put32(f, HELLO_CRC);
    put32(f, 5);
    put(f,
        "\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x09\0\xf6\xff"
        "123456789",
        10 + 5 + 9);
    put32(f, DIGITS_CRC);
    put32(f, 9);
    const size_t whole = f->n;
    put(f, "\0\0\0\0", 4);
    CHECK_INT(spool_bytes(f->b, f->n, 14, &s, out, &n, &err), SLIMSET_OK);
    CHECK_INT(n, 14);
    CHECK(memcmp(out, "hello123456789", 14) == 0);
    CHECK(s.calls == 1 && s.asked == 14);
    CHECK_INT(spool_bytes(f->b, f->n, 13, &s, out, &n, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_RATIO);
    s = (struct space){.refuse_at = 1};
    CHECK_INT(spool_bytes(f->b, f->n, 14, &s, out, &n, &err), SLIMSET_LIMIT);
    const size_t first = 29 + sizeof HELLO + 8;
    s = (struct space){0};
    for (size_t cut = 1; cut < whole; cut++) {
        const enum slimset_status st = spool_bytes(f->b, cut, 99, &s, NULL, &n, &err);
        CHECK_INT(st, cut == first ? SLIMSET_OK : SLIMSET_BAD_INPUT);
        if (st != SLIMSET_OK)
            CHECK_INT(err.reject, SLIMSET_REJECT_TRUNCATED);
    }
    f->b[f->n - 1] = 'g';
    CHECK_INT(spool_bytes(f->b, f->n, 99, &s, out, &n, &err), SLIMSET_BAD_INPUT);
    f->b[whole - 1] ^= 1;
    CHECK_INT(spool_bytes(f->b, whole, 99, &s, out, &n, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_CORRUPT);
    CHECK_INT(n, 14); /* what came before the fault is there */
}

/* ---- for archive_judge.py ---- */

static int serve_fd, serve_spool;

static enum slimset_status serve_member(void *arg, const struct archive_member *m,
                                        struct slimset_error *err)
{
    (void)arg;
    (void)err;
    struct slimset_error e;
    const int fd = m->in_spool ? serve_spool : serve_fd;
    uint32_t crc = 0;
    const char *state = "-";
    uint64_t at = 0;
    if (m->problem == SLIMSET_REJECT_NONE) {
        uint8_t *packed = malloc(m->packed_bytes + 1), *out = malloc(m->bytes + 1);
        state = "good";
        if (archive_data_offset(fd, m, &at, &e) != SLIMSET_OK)
            state = slimset_reject_name(e.reject);
        else if (pread(fd, packed, m->packed_bytes, (off_t)at) != (ssize_t)m->packed_bytes)
            state = "short";
        else if (m->method == ARCHIVE_DEFLATE &&
                 archive_inflate(packed, m->packed_bytes, out, m->bytes, &e) != SLIMSET_OK)
            state = slimset_reject_name(e.reject);
        else
            crc = archive_crc32(0, m->method == ARCHIVE_DEFLATE ? out : packed, m->bytes);
        if (strcmp(state, "good") == 0 && m->has_crc && crc != m->crc32)
            state = "checksum";
        free(packed);
        free(out);
    }
    printf("M ");
    for (uint32_t i = 0; i < m->name_bytes; i++)
        printf("%02x", (unsigned char)m->name[i]);
    printf(". %s %s %llu %lld %08x %d\n", slimset_reject_name(m->problem), state,
           (unsigned long long)m->bytes, (long long)m->mtime_s, crc, m->in_spool);
    return SLIMSET_OK;
}

static enum slimset_status count_member(void *arg, const struct archive_member *m,
                                        struct slimset_error *err)
{
    (void)m;
    (void)err;
    ++*(uint64_t *)arg;
    return SLIMSET_OK;
}

/* Reads lines "COMMAND FORMAT DEPTH MAX_BYTES PATH" and answers each with M lines and one E
 * line. */
static int serve(void)
{
    char line[4096], command[16], format_name[8], path[4000];
    int depth;
    unsigned long long max;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%15s %7s %d %llu %3999s", command, format_name, &depth, &max, path) != 5)
            return 2;
        static const char *const names[] = {"zip", "tar", "gz", "zst", "xz"};
        static const enum image_format formats[] = {FORMAT_ZIP, FORMAT_TAR, FORMAT_GZIP,
                                                    FORMAT_ZSTD, FORMAT_XZ};
        enum image_format format = FORMAT_UNKNOWN;
        for (int i = 0; i < 5; i++)
            if (strcmp(format_name, names[i]) == 0)
                format = formats[i];
        FILE *file = fopen(path, "rb");
        if (file == NULL)
            return 2;
        serve_fd = fileno(file);
        const uint64_t bytes = (uint64_t)lseek(serve_fd, 0, SEEK_END);
        serve_spool = memfd_create("spool", 0);
        int outer = -1;
        uint64_t n = bytes, counted = 0;
        struct archive_result res = {0};
        struct slimset_error err = {.text = ""};
        enum slimset_status st = SLIMSET_OK;
        if (format >= FORMAT_GZIP) {
            outer = memfd_create("outer", 0);
            st = archive_spool(serve_fd, 0, bytes, format, outer, max, NULL, NULL, &n, &err);
            serve_fd = outer;
            format = FORMAT_TAR;
        }
        if (st == SLIMSET_OK && strcmp(command, "list") == 0)
            st = archive_list(serve_fd, 0, n, format, depth, serve_spool, NULL, serve_member, NULL,
                              &res, &err);
        else if (st == SLIMSET_OK && strcmp(command, "count") == 0)
            st = archive_list(serve_fd, 0, n, format, depth, serve_spool, NULL, count_member,
                              &counted, &res, &err);
        printf("E %d %s %llu %d %d %d %llu|%s\n", st,
               slimset_reject_name(st == SLIMSET_OK ? 0 : err.reject),
               (unsigned long long)res.members, res.no_end_marker, res.concatenated, res.damaged,
               (unsigned long long)n, st == SLIMSET_OK ? res.damage : err.text);
        fflush(stdout);
        fclose(file);
        close(serve_spool);
        if (outer >= 0)
            close(outer);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--serve") == 0)
        return serve();
    RUN(test_tar_plain);
    RUN(test_tar_kinds);
    RUN(test_tar_links);
    RUN(test_tar_pax);
    RUN(test_tar_ends);
    RUN(test_tar_damage);
    RUN(test_names);
    RUN(test_crc_inflate);
    RUN(test_zip_plain);
    RUN(test_zip_problems);
    RUN(test_zip_overlap);
    RUN(test_zip_refused);
    RUN(test_limits);
    RUN(test_nesting);
    RUN(test_spool_gzip);
    RUN(test_spool_space);
    return check_done();
}
