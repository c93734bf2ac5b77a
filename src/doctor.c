/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor: what a run will find here. Kernel, machine, libraries; then one picture of every format through the workers of a real
 * pool, so that what is said of the sandbox and of codecs has been tried.
 */
#include "slimset/doctor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "jpeg_write.h"
#include "names.h"
#include "png_write.h"
#include "pool.h"
#include "sandbox.h"
#include "sniff.h"
#include "versions.h"
#include "vips_read.h"

struct doctor {
    slimset_health_fn *fn;
    void *arg;
    unsigned bad;
    struct pool *pool;
    uint64_t ticket;
};

static void say(struct doctor *d, const char *group, const char *name, enum slimset_health health, const char *fmt, ...)
    ERR_PRINTF(5, 6);

static void say(struct doctor *d, const char *group, const char *name, enum slimset_health health, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->bad += health == SLIMSET_HEALTH_BAD;
    d->fn(d->arg, group, name, health, text);
}

/* --- what can be asked ---------------------------------------------------------------------------- */

static void look_at_kernel(struct doctor *d)
{
    struct utsname u;
    int abi, fd = memfd_create("slimset-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned layers = sandbox_available(&abi);
    if (uname(&u) == 0)
        say(d, "machine", "kernel", SLIMSET_HEALTH_FACT, "%s %s %s", u.sysname, u.release, u.machine);
    bool sealed = fd >= 0 && ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (fd >= 0)
        close(fd);
    say(d, "sandbox", "memfd", sealed ? SLIMSET_HEALTH_GOOD : SLIMSET_HEALTH_BAD, "%s",
        sealed ? "shared memory can be sealed" : "no sealed shared memory: workers cannot be started");
    if ((layers & SANDBOX_LANDLOCK) == 0)
        say(d, "sandbox", "landlock", SLIMSET_HEALTH_LACKING, "not in this kernel: seccomp alone keeps workers from files");
    else
        say(d, "sandbox", "landlock", SLIMSET_HEALTH_GOOD, "ABI %d: no path can be opened%s%s", abi,
            abi >= 4 ? ", no TCP" : "", abi >= 6 ? ", no signals or abstract sockets to others" : "");
    if ((layers & SANDBOX_SECCOMP) == 0)
        say(d, "sandbox", "seccomp", SLIMSET_HEALTH_LACKING, "not here: workers can make any system call");
}

/* Bytes from the first number in a small file; 0 when there is none ("max"). */
static uint64_t number_in(const char *path, const char *behind)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, behind);
    return at != NULL ? strtoull(at + strlen(behind), NULL, 10) : 0;
}

static void look_at_machine(struct doctor *d)
{
    struct rlimit files;
    uint64_t total = number_in("/proc/meminfo", "MemTotal:") * 1024, limit = number_in("/sys/fs/cgroup/memory.max", "");
    say(d, "machine", "processors", SLIMSET_HEALTH_FACT, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2");
    say(d, "machine", "simd", avx2 ? SLIMSET_HEALTH_GOOD : SLIMSET_HEALTH_LACKING, "%s",
        avx2 ? "AVX2 is used" : "no AVX2: the same bytes, more slowly");
#else
    say(d, "machine", "simd", SLIMSET_HEALTH_FACT, "portable code");
#endif
    if (limit != 0 && (total == 0 || limit < total))
        say(d, "machine", "memory", SLIMSET_HEALTH_FACT, "%" PRIu64 " MB, limited by the control group", limit / 1000000);
    else
        say(d, "machine", "memory", SLIMSET_HEALTH_FACT, "%" PRIu64 " MB", total / 1000000);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        say(d, "machine", "open files", files.rlim_max < 256 ? SLIMSET_HEALTH_LACKING : SLIMSET_HEALTH_GOOD,
            "%llu%s", (unsigned long long)files.rlim_max, files.rlim_max < 256 ? ": few inputs can be read ahead" : "");
}

static void look_at_build(struct doctor *d)
{
    struct library_version v;
    say(d, "build", "slimset", SLIMSET_HEALTH_FACT, "%s", SLIMSET_VERSION);
    for (unsigned i = 0; library_version(i, &v); i++)
        say(d, "build", v.name, SLIMSET_HEALTH_FACT, "%s", v.text);
}

/* --- what is tried -------------------------------------------------------------------------------- */

/* One picture through a worker. The answer is the caller's to free. */
static enum slimset_status ask(struct doctor *d, const uint8_t *data, size_t n, enum item_op op, enum slimset_codec codec,
                               struct item_answer **answer, struct slimset_error *err)
{
    struct item_request req = {.ticket = ++d->ticket, .op = op, .n_inputs = 1, .n_fds = 1};
    struct pool_answer a = {0};
    uint64_t culprit;
    bool got = false;
    req.input[0] = (struct item_input){.packed_bytes = n, .bytes = n, .role = SLIMSET_ROLE_IMAGE, .codec = (uint8_t)codec};
    int fd = memfd_create("slimset-doctor", MFD_CLOEXEC);
    if (fd < 0)
        return err_os(err, "handing a picture to a worker");
    enum slimset_status st = io_pwrite(fd, data, n, 0, "a picture for a worker", err);
    if (st != SLIMSET_OK) {
        close(fd);
        return st;
    }
    st = pool_submit(d->pool, &req, &fd, err);
    while (st == SLIMSET_OK && !got)
        st = pool_next(d->pool, 1000, &a, &got, &culprit, err);
    *answer = a.answer;
    return st;
}

/* JPEG, PNG, BMP and PNM are slimset's own; without the others a run works. */
static enum slimset_status try_decode(struct doctor *d, enum image_format f, const uint8_t *data, size_t n, struct slimset_error *err)
{
    struct item_answer *a = NULL;
    bool own = f == FORMAT_JPEG || f == FORMAT_PNG || f == FORMAT_BMP || f == FORMAT_PNM;
    enum slimset_status st = ask(d, data, n, ITEM_CHECK, SLIMSET_CODEC_KEEP, &a, err);
    if (st != SLIMSET_OK)
        return st;
    if (a->status == SLIMSET_OK && item_fields(a)->w == 8 && item_fields(a)->h == 8)
        say(d, "decode", sniff_format_name(f), SLIMSET_HEALTH_GOOD, "works%s", own ? "" : ", through libvips");
    else
        say(d, "decode", sniff_format_name(f), own ? SLIMSET_HEALTH_BAD : SLIMSET_HEALTH_LACKING, "%.*s",
            a->status != SLIMSET_OK ? (int)a->text_bytes : 24, a->status != SLIMSET_OK ? item_text(a) : "decodes to a wrong size");
    free(a);
    return SLIMSET_OK;
}

static enum slimset_status try_encode(struct doctor *d, enum slimset_codec codec, enum image_format want, const uint8_t *bmp, size_t n,
                                      struct slimset_error *err)
{
    struct item_answer *a = NULL;
    enum slimset_status st = ask(d, bmp, n, ITEM_CONVERT, codec, &a, err);
    if (st != SLIMSET_OK)
        return st;
    bool good = a->status == SLIMSET_OK && item_fields(a)->format == want;
    if (good)
        say(d, "encode", name_codec((uint8_t)codec), SLIMSET_HEALTH_GOOD, "works");
    else
        say(d, "encode", name_codec((uint8_t)codec), codec == SLIMSET_CODEC_WEBP ? SLIMSET_HEALTH_LACKING : SLIMSET_HEALTH_BAD, "%.*s",
            a->status != SLIMSET_OK ? (int)a->text_bytes : 25, a->status != SLIMSET_OK ? item_text(a) : "gives another format back");
    free(a);
    return SLIMSET_OK;
}

/* 8 x 8, (200, 60, 30), as the samples of libvips' formats are. */
static enum slimset_status make_samples(struct buf *bmp, struct buf *pnm, struct buf *jpeg, struct buf *png, struct slimset_error *err)
{
    static const uint8_t rgb[3] = {200, 60, 30}, bgr[3] = {30, 60, 200};
    uint8_t head[54] = {'B', 'M'};
    struct image im = {0};
    struct jpeg_writer *jw = jpeg_writer_new();
    struct png_writer *pw = png_writer_new();
    put_le32(head + 2, 54 + 8 * 24);
    put_le32(head + 10, 54);
    put_le32(head + 14, 40);
    put_le32(head + 18, 8);
    put_le32(head + 22, 8);
    put_le16(head + 26, 1);
    put_le16(head + 28, 24);
    enum slimset_status st = jw != NULL && pw != NULL ? buf_append(bmp, head, sizeof head, err) : err_nomem(err, 1);
    if (st == SLIMSET_OK)
        st = buf_append(pnm, "P6 8 8 255\n", 11, err);
    for (int i = 0; st == SLIMSET_OK && i < 64; i++) {
        st = buf_append(bmp, bgr, 3, err);
        if (st == SLIMSET_OK)
            st = buf_append(pnm, rgb, 3, err);
    }
    if (st == SLIMSET_OK)
        st = image_setup(&im, IMAGE_RGB, false, 8, 8, 8, err);
    for (unsigned i = 0; st == SLIMSET_OK && i < 3; i++)
        for (unsigned y = 0; y < 8; y++)
            memset(im.plane[i].data + y * im.plane[i].stride_bytes, rgb[i], 8);
    struct jpeg_settings settings = {.quality = 90, .subsampling = JPEG_420, .optimise = true};
    if (st == SLIMSET_OK)
        st = jpeg_write(jw, &im, &settings, jpeg, err);
    if (st == SLIMSET_OK)
        st = png_write(pw, &im, 6, 0, 0, png, err);
    image_fini(&im);
    jpeg_writer_free(jw);
    png_writer_free(pw);
    return st;
}

static enum slimset_status try_all(struct doctor *d, struct slimset_error *err)
{
    static const struct {
        enum slimset_codec codec;
        enum image_format format;
    } out[] = {{SLIMSET_CODEC_JPEG, FORMAT_JPEG}, {SLIMSET_CODEC_PNG, FORMAT_PNG}, {SLIMSET_CODEC_NPY, FORMAT_NPY},
               {SLIMSET_CODEC_WEBP, FORMAT_WEBP}};
    struct buf bmp = {0}, pnm = {0}, jpeg = {0}, png = {0};
    enum image_format f;
    const uint8_t *data;
    size_t n;
    enum slimset_status st = make_samples(&bmp, &pnm, &jpeg, &png, err);
    if (st == SLIMSET_OK)
        st = try_decode(d, FORMAT_JPEG, jpeg.data, jpeg.len, err);
    if (st == SLIMSET_OK)
        st = try_decode(d, FORMAT_PNG, png.data, png.len, err);
    if (st == SLIMSET_OK)
        st = try_decode(d, FORMAT_BMP, bmp.data, bmp.len, err);
    if (st == SLIMSET_OK)
        st = try_decode(d, FORMAT_PNM, pnm.data, pnm.len, err);
    for (unsigned i = 0; st == SLIMSET_OK && vips_sample_bytes(i, &f, &data, &n); i++)
        st = try_decode(d, f, data, n, err);
    for (size_t i = 0; st == SLIMSET_OK && i < sizeof out / sizeof out[0]; i++)
        st = try_encode(d, out[i].codec, out[i].format, bmp.data, bmp.len, err);
    buf_fini(&bmp);
    buf_fini(&pnm);
    buf_fini(&jpeg);
    buf_fini(&png);
    return st;
}

/* What the workers that have just answered say holds them. */
static void look_at_workers(struct doctor *d)
{
    unsigned crashes, layers;
    uint32_t vips = pool_vips_version(d->pool);
    pool_facts(d->pool, &crashes, &layers);
    if (layers & SANDBOX_SECCOMP)
        say(d, "sandbox", "seccomp", SLIMSET_HEALTH_GOOD, "workers run with a list of allowed system calls");
    bool all = (layers & (SANDBOX_NO_NEW_PRIVS | SANDBOX_LIMITS)) == (SANDBOX_NO_NEW_PRIVS | SANDBOX_LIMITS);
    say(d, "sandbox", "no_new_privs", all ? SLIMSET_HEALTH_GOOD : SLIMSET_HEALTH_LACKING, "%s",
        all ? "workers can gain nothing; address space, files and core dumps are limited" : "not in force");
    if (crashes > 0)
        say(d, "sandbox", "workers", SLIMSET_HEALTH_BAD, "%u crashed", crashes);
    if (vips != 0)
        say(d, "build", "libvips", SLIMSET_HEALTH_FACT, "%u.%u.%u", vips >> 16, vips >> 8 & 255, vips & 255);
    else
        say(d, "build", "libvips", SLIMSET_HEALTH_LACKING, "not there: only JPEG, PNG, BMP and PNM are read");
}

enum slimset_status slimset_doctor(slimset_health_fn *fn, void *arg, struct slimset_error *err)
{
    struct doctor d = {.fn = fn, .arg = arg};
    struct slimset_recipe recipe;
    slimset_recipe_init(&recipe);
    recipe.reencode_all = true;
    struct pool_settings settings = {.recipe = &recipe, .jobs = 1};
    look_at_kernel(&d);
    look_at_machine(&d);
    look_at_build(&d);
    enum slimset_status st = pool_open(&settings, &d.pool, err);
    if (st == SLIMSET_OK)
        st = try_all(&d, err);
    if (st == SLIMSET_OK)
        look_at_workers(&d);
    pool_close(d.pool);
    if (st == SLIMSET_OK && d.bad > 0)
        st = err_set(err, SLIMSET_INTERNAL, "%u of the things that a run needs do not work here", d.bad);
    return st;
}
