/* SPDX-License-Identifier: Apache-2.0
 *
 * The libvips path. Without arguments: unit tests, first of all that after vips_start everything
 * decodes under a seccomp filter that lets no file be opened. With "judge" it serves vips_judge.py:
 * one command per line on standard input, one answer per line on standard output.
 */
#include "bmp_read.h"
#include "check.h"
#include "vips_read.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_VIPS
#include "vips_load.h"
#endif

static uint8_t *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    size_t cap = 1 << 16, got;
    uint8_t *data = malloc(cap);
    *n = 0;
    while ((got = fread(data + *n, 1, cap - *n, f)) > 0) {
        *n += got;
        if (*n == cap)
            data = realloc(data, cap *= 2);
    }
    fclose(f);
    return data;
}

/* ---- judge ---- */

static enum image_format format_of(const char *name)
{
    static const struct {
        const char *name;
        enum image_format f;
    } all[] = {{"tiff", FORMAT_TIFF}, {"webp", FORMAT_WEBP}, {"gif", FORMAT_GIF},
               {"heif", FORMAT_HEIF}, {"avif", FORMAT_AVIF}, {"jxl", FORMAT_JXL},
               {"jp2", FORMAT_JP2},   {"bmp", FORMAT_BMP},   {"pnm", FORMAT_PNM}};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].f;
    return FORMAT_UNKNOWN;
}

static enum slimset_status header(const uint8_t *data, size_t n, enum image_format f,
                                  struct image_info *info, struct slimset_error *err)
{
    if (f == FORMAT_BMP)
        return bmp_read_header(data, n, &image_limits_default, info, err);
    if (f == FORMAT_PNM)
        return pnm_read_header(data, n, &image_limits_default, info, err);
    return vips_read_header(data, n, f, info, err);
}

static enum slimset_status decode(const uint8_t *data, size_t n, const struct image_info *info,
                                  bool srgb, struct image *out, uint32_t *notes,
                                  struct slimset_error *err)
{
    if (info->format == FORMAT_BMP)
        return bmp_decode(data, n, info, out, notes, err);
    if (info->format == FORMAT_PNM)
        return pnm_decode(data, n, info, out, notes, err);
    return vips_decode(data, n, info, srgb, out, notes, err);
}

static void answer_error(const struct slimset_error *err)
{
    printf("error %d %s %s\n", err->status, slimset_reject_name(err->reject), err->text);
}

static void write_planes(const struct image *im, const char *path)
{
    FILE *f = fopen(path, "wb");
    for (unsigned c = 0; c < im->n_planes; c++)
        for (uint32_t y = 0; y < im->h; y++)
            fwrite(im->plane[c].data + (size_t)y * im->plane[c].stride_bytes, im->bits / 8u, im->w,
                   f);
    fclose(f);
}

static void answer_image(const struct image *im, uint32_t notes, const char *path)
{
    write_planes(im, path);
    printf("image %u %u %d %d %d %d %u\n", im->w, im->h, im->colour, im->bits, im->alpha,
           im->n_planes, notes);
}

static void read_planes(struct image *im, const char *path)
{
    FILE *f = fopen(path, "rb");
    for (unsigned c = 0; c < im->n_planes; c++)
        for (uint32_t y = 0; y < im->h; y++)
            if (fread(im->plane[c].data + (size_t)y * im->plane[c].stride_bytes, im->bits / 8u,
                      im->w, f) != im->w)
                abort();
    fclose(f);
}

/* Cuts the file at `from`, from + step ... and prints every length at which a decode still
 * succeeded. */
static void judge_cut(const uint8_t *data, size_t n, enum image_format f, size_t step)
{
    struct image out = {0};
    printf("cut");
    for (size_t cut = 0; cut < n; cut += step) {
        struct slimset_error err;
        struct image_info info;
        uint32_t notes = 0;
        uint8_t *exact = malloc(cut != 0 ? cut : 1); /* so that ASan sees a read beyond the end */
        memcpy(exact, data, cut);
        if (header(exact, cut, f, &info, &err) == SLIMSET_OK &&
            decode(exact, cut, &info, false, &out, &notes, &err) == SLIMSET_OK)
            printf(" %zu", cut);
        else if (err.status != SLIMSET_BAD_INPUT || err.text[0] == '\0')
            printf(" status-%d-at-%zu", err.status, cut);
        free(exact);
    }
    printf("\n");
    image_fini(&out);
}

static void judge_flip(const uint8_t *data, size_t n, enum image_format f, unsigned rounds)
{
    struct image out = {0};
    uint32_t seed = 1, ok = 0, odd = 0;
    for (unsigned i = 0; i < rounds; i++) {
        struct slimset_error err;
        struct image_info info;
        uint32_t notes = 0;
        uint8_t *copy = malloc(n);
        memcpy(copy, data, n);
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (i % 2 == 0 && n > 256 ? 256 : n)] = (uint8_t)(seed >> 3);
        }
        if (header(copy, n, f, &info, &err) == SLIMSET_OK &&
            decode(copy, n, &info, i % 4 == 0, &out, &notes, &err) == SLIMSET_OK)
            ok++;
        else if (err.status != SLIMSET_BAD_INPUT && err.status != SLIMSET_NO_MEMORY)
            odd++;
        free(copy);
    }
    printf("flip %u %u\n", ok, odd);
    image_fini(&out);
}

/* w h colour alpha bits in-planes icc out */
static void judge_colour(char **a)
{
    struct slimset_error err;
    struct image in = {0}, out = {0};
    uint32_t notes = 0;
    size_t n;
    uint8_t *icc = read_file(a[7], &n);
    image_setup(&in, (enum image_colour)atoi(a[3]), atoi(a[4]) != 0, (uint8_t)atoi(a[5]),
                (uint32_t)atoi(a[1]), (uint32_t)atoi(a[2]), &err);
    read_planes(&in, a[6]);
    if (vips_to_srgb(&in, icc, n, &out, &notes, &err) == SLIMSET_OK)
        answer_image(&out, notes, a[8]);
    else
        answer_error(&err);
    free(icc);
    image_fini(&in);
    image_fini(&out);
}

/* w h colour alpha in-planes quality lossless out */
static void judge_webp(char **a)
{
    struct slimset_error err;
    struct image in = {0};
    struct buf out = {0};
    image_setup(&in, (enum image_colour)atoi(a[3]), atoi(a[4]) != 0, 8, (uint32_t)atoi(a[1]),
                (uint32_t)atoi(a[2]), &err);
    read_planes(&in, a[5]);
    if (vips_write_webp(&in, atoi(a[6]), atoi(a[7]) != 0, &out, &err) == SLIMSET_OK) {
        FILE *f = fopen(a[8], "wb");
        fwrite(out.data, 1, out.len, f);
        fclose(f);
        printf("bytes %zu\n", out.len);
    } else {
        answer_error(&err);
    }
    buf_fini(&out);
    image_fini(&in);
}

/* One file: verb, path, format, then what the verb takes. */
static void judge_file(char **a)
{
    struct slimset_error err;
    struct image_info info;
    struct image out = {0};
    uint32_t notes = 0;
    size_t n = 0;
    enum image_format f = format_of(a[2]);
    uint8_t *data = read_file(a[1], &n);
    if (strcmp(a[0], "cut") == 0) {
        judge_cut(data, n, f, (size_t)atoi(a[3]));
    } else if (strcmp(a[0], "flip") == 0) {
        judge_flip(data, n, f, (unsigned)atoi(a[3]));
    } else if (header(data, n, f, &info, &err) != SLIMSET_OK) {
        answer_error(&err);
    } else if (strcmp(a[0], "header") == 0) {
        printf("header %u %u %d %d %d %d %d %d %u %d %zu %d %u\n", info.w, info.h, info.orientation,
               info.channels, info.bits, info.is_float, info.alpha, info.palette, info.frames,
               info.colour, info.icc_bytes, info.icc != NULL, info.notes);
    } else if (decode(data, n, &info, atoi(a[3]) != 0, &out, &notes, &err) != SLIMSET_OK) {
        answer_error(&err);
    } else {
        answer_image(&out, notes, a[4]);
    }
    free(data);
    image_fini(&out);
}

static int judge(void)
{
    char line[4096], *a[12];
    struct slimset_error err;
    if (vips_start(&image_limits_default, &err) != SLIMSET_OK)
        printf("vips none");
    else
        printf("vips %s", vips_version_text());
    static const char *const names[] = {"tiff", "webp", "gif", "heif", "avif", "jxl", "jp2"};
    for (unsigned i = 0; i < 7 && vips_version_text() != NULL; i++)
        if (vips_can_load(format_of(names[i])))
            printf(" %s", names[i]);
    printf("\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned n = 0;
        char *rest = line;
        memset(a, 0, sizeof a);
        while (n < 12 && (a[n] = strtok_r(rest, " \n", &rest)) != NULL)
            n++;
        if (n == 0)
            continue;
        if (strcmp(a[0], "colour") == 0)
            judge_colour(a);
        else if (strcmp(a[0], "webp") == 0)
            judge_webp(a);
        else
            judge_file(a);
        fflush(stdout);
    }
    return 0;
}

/* ---- unit tests ---- */

#ifdef HAVE_VIPS

static bool near(int a, int b) { return abs(a - b) < 8; }

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif
#if defined(THIS_ARCH) && !defined(__SANITIZE_ADDRESS__)
#define HAVE_FILTER 1
#define WHEN(name, what)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (name), 0, 1), BPF_STMT(BPF_RET | BPF_K, (what))
#define OK_CALL(name) WHEN(SYS_##name, SECCOMP_RET_ALLOW)

/* Whatever is not named kills the process: so the list is known to be enough. */
static bool close_sandbox(void)
{
    static const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        OK_CALL(read),
        OK_CALL(write),
        OK_CALL(pread64),
        OK_CALL(close),
        OK_CALL(fstat),
        OK_CALL(lseek),
#ifdef SYS_newfstatat
        OK_CALL(newfstatat),
#endif
        OK_CALL(mmap),
        OK_CALL(munmap),
        OK_CALL(mremap),
        OK_CALL(brk),
        OK_CALL(madvise),
        OK_CALL(mprotect),
        OK_CALL(futex),
        OK_CALL(exit),
        OK_CALL(exit_group),
        OK_CALL(rt_sigaction),
        OK_CALL(rt_sigprocmask),
        OK_CALL(rt_sigreturn),
        OK_CALL(clock_gettime),
        OK_CALL(clock_getres),
        OK_CALL(clock_nanosleep),
        OK_CALL(sched_yield),
        OK_CALL(sched_getaffinity),
        OK_CALL(getrandom),
        OK_CALL(gettid),
        OK_CALL(getpid),
        OK_CALL(restart_syscall),
        OK_CALL(clone),
        OK_CALL(set_robust_list),
#ifdef SYS_rseq
        OK_CALL(rseq),
#endif
#ifdef SYS_clone3
        WHEN(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS),
#endif
#ifdef SYS_open
        WHEN(SYS_open, SECCOMP_RET_ERRNO | EPERM),
#endif
        WHEN(SYS_openat, SECCOMP_RET_ERRNO | EPERM),
        WHEN(SYS_prctl, SECCOMP_RET_ERRNO | EPERM),
        WHEN(SYS_ioctl, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog prog = {.len = sizeof filter / sizeof filter[0],
                              .filter = (struct sock_filter *)filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

/* In the child: 0, or the number of what failed. */
static int decode_all_sandboxed(void)
{
    struct slimset_error err;
    struct image out = {0}, big = {0};
    struct image_info info;
    struct buf webp = {0};
    uint32_t notes = 0;
    if (vips_start(&image_limits_default, &err) != SLIMSET_OK)
        return 77;
    if (!close_sandbox())
        return 1;
    if (fopen("/etc/passwd", "r") != NULL)
        return 2;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < vips_samples_n; i++) {
            const struct vips_sample *s = &vips_samples[i];
            if (!vips_can_load(s->format))
                continue;
            if (vips_read_header(s->data, s->n, s->format, &info, &err) != SLIMSET_OK ||
                vips_decode(s->data, s->n, &info, round == 1, &out, &notes, &err) != SLIMSET_OK)
                return 10 + (int)i;
            if (out.w != 8 || out.n_planes != 3 || !near(out.plane[0].data[0], 200) ||
                !near(out.plane[1].data[0], 60) || !near(out.plane[2].data[7], 30))
                return 20 + (int)i;
        }
    /* 42 megapixels: no temporary file, whatever libvips' disc threshold is. */
    if (image_setup(&big, IMAGE_RGB, false, 8, 7000, 6000, &err) != SLIMSET_OK)
        return 3;
    memset(big.store.data, 90, big.store.len);
    if (vips_write_webp(&big, 50, false, &webp, &err) != SLIMSET_OK)
        return 4;
    if (vips_read_header(webp.data, webp.len, FORMAT_WEBP, &info, &err) != SLIMSET_OK ||
        info.w != 7000 ||
        vips_decode(webp.data, webp.len, &info, false, &out, &notes, &err) != SLIMSET_OK)
        return 5;
    return near(out.plane[2].data[(size_t)5999 * out.plane[2].stride_bytes + 6999], 90) ? 0 : 6;
}
#endif

static void test_sandbox(void)
{
#ifdef HAVE_FILTER
    pid_t pid = fork();
    if (pid == 0)
        _exit(decode_all_sandboxed());
    int how = 0;
    waitpid(pid, &how, 0);
    CHECK_INT(WIFSIGNALED(how) ? WTERMSIG(how) : 0, 0);
    if (WIFEXITED(how) && WEXITSTATUS(how) != 77)
        CHECK_INT(WEXITSTATUS(how), 0);
#endif
}

static void test_formats(void)
{
    struct slimset_error err;
    struct image out = {0};
    struct image_info info;
    /* Without an AVIF, HEVC, JPEG XL or JPEG 2000 decoder a build is poorer, not wrong. */
    static const enum image_format always[] = {FORMAT_TIFF, FORMAT_WEBP, FORMAT_GIF};
    for (unsigned i = 0; i < 3; i++)
        CHECK(vips_can_load(always[i]));
    CHECK(!vips_can_load(FORMAT_JPEG) && !vips_can_load(FORMAT_SVG) &&
          !vips_can_load(FORMAT_COUNT));
    for (unsigned i = 0; i < vips_samples_n; i++) {
        const struct vips_sample *s = &vips_samples[i];
        uint32_t notes = 0;
        if (!vips_can_load(s->format)) {
            CHECK_INT(vips_read_header(s->data, s->n, s->format, &info, &err), SLIMSET_BAD_INPUT);
            CHECK_INT(err.reject, SLIMSET_REJECT_NO_DECODER);
            continue;
        }
        CHECK_INT(vips_read_header(s->data, s->n, s->format, &info, &err), SLIMSET_OK);
        CHECK_INT(info.w, 8);
        CHECK_INT(info.h, 8);
        CHECK_INT(info.bits, 8);
        CHECK_INT(info.channels, 3);
        CHECK_INT(info.colour, IMAGE_RGB);
        CHECK_INT(info.alpha, 0);
        CHECK_INT(info.frames, 1);
        CHECK_INT(info.orientation, 1);
        CHECK_INT(vips_decode(s->data, s->n, &info, false, &out, &notes, &err), SLIMSET_OK);
        CHECK(near(out.plane[0].data[3], 200) && near(out.plane[1].data[3], 60) &&
              near(out.plane[2].data[3], 30));
        CHECK_INT(notes & ~(unsigned)NOTE_EXPANDED, 0);
    }
    image_fini(&out);
}

static void test_not_loaded(void)
{
    /* Formats that libvips could render, and bytes of another format under an allowed name. */
    static const char svg[] =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>";
    struct slimset_error err;
    struct image_info info;
    CHECK_INT(vips_read_header((const uint8_t *)svg, sizeof svg - 1, FORMAT_SVG, &info, &err),
              SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_NO_DECODER);
    static const enum image_format all[] = {FORMAT_TIFF, FORMAT_WEBP, FORMAT_GIF,
                                            FORMAT_AVIF, FORMAT_JXL,  FORMAT_JP2};
    for (unsigned i = 0; i < 6; i++) {
        CHECK_INT(vips_read_header((const uint8_t *)svg, sizeof svg - 1, all[i], &info, &err),
                  SLIMSET_BAD_INPUT);
        CHECK(err.text[0] != '\0');
        CHECK_INT(vips_read_header((const uint8_t *)svg, 0, all[i], &info, &err),
                  SLIMSET_BAD_INPUT);
    }
}

static void test_limits(void)
{
    static const struct image_limits tight = {
        .max_pixels = 63, .max_side = 100, .max_scans = 1, .max_scan_pixels = 99};
    struct slimset_error err;
    struct image_info info;
    CHECK_INT(vips_start(&tight, &err), SLIMSET_OK); /* a second start only sets the limits */
    for (unsigned i = 0; i < vips_samples_n; i++)
        if (vips_can_load(vips_samples[i].format)) {
            CHECK_INT(vips_read_header(vips_samples[i].data, vips_samples[i].n,
                                       vips_samples[i].format, &info, &err),
                      SLIMSET_BAD_INPUT);
            CHECK_INT(err.reject, SLIMSET_REJECT_TOO_MANY_PIXELS);
        }
    CHECK_INT(vips_start(&image_limits_default, &err), SLIMSET_OK);
}

static void test_bad_profile(void)
{
    struct slimset_error err;
    struct image in = {0}, out = {0};
    uint8_t icc[200] = {0};
    uint32_t notes = 0;
    CHECK_INT(image_setup(&in, IMAGE_RGB, true, 16, 5, 3, &err), SLIMSET_OK);
    for (size_t i = 0; i < in.store.len; i++)
        in.store.data[i] = (uint8_t)(i * 7);
    CHECK_INT(vips_to_srgb(&in, icc, 10, &out, &notes, &err), SLIMSET_OK); /* too short */
    CHECK_INT(notes, NOTE_PROFILE_BAD);
    memcpy(icc + 12, "mntrGRAYXYZ ", 12);
    memcpy(icc + 36, "acsp", 4);
    put_be32(icc, sizeof icc);
    notes = 0;
    CHECK_INT(vips_to_srgb(&in, icc, sizeof icc, &out, &notes, &err),
              SLIMSET_OK); /* gray for an RGB image */
    CHECK_INT(notes, NOTE_PROFILE_BAD);
    memcpy(icc + 16, "RGB ", 4);
    notes = 0;
    CHECK_INT(vips_to_srgb(&in, icc, sizeof icc, &out, &notes, &err),
              SLIMSET_OK); /* no tags: lcms refuses it */
    CHECK_INT(notes, NOTE_PROFILE_BAD);
    CHECK_INT(out.bits, 16);
    CHECK_INT(out.n_planes, 4);
    for (unsigned c = 0; c < 4; c++)
        for (unsigned y = 0; y < 3; y++)
            CHECK(memcmp(out.plane[c].data + y * out.plane[c].stride_bytes,
                         in.plane[c].data + y * in.plane[c].stride_bytes, 10) == 0);
    image_fini(&in);
    image_fini(&out);
}

static void test_webp_size(void)
{
    struct slimset_error err;
    struct image im = {0};
    struct buf out = {0};
    CHECK_INT(image_setup(&im, IMAGE_GRAY, false, 8, 16384, 1, &err), SLIMSET_OK);
    CHECK_INT(vips_write_webp(&im, 80, false, &out, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_TOO_MANY_PIXELS);
    CHECK_INT(out.len, 0);
    buf_fini(&out);
    image_fini(&im);
}
#endif

static void test_without(void)
{
    struct slimset_error err;
    struct image_info info;
    struct image im = {0};
    struct buf out = {0};
    uint32_t notes = 0;
    if (vips_version_text() != NULL)
        return;
    CHECK_INT(vips_read_header((const uint8_t *)"II*", 3, FORMAT_TIFF, &info, &err),
              SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_NO_DECODER);
    CHECK(err.text[0] != '\0');
    memset(&info, 0, sizeof info);
    info.format = FORMAT_TIFF;
    CHECK_INT(vips_decode((const uint8_t *)"II*", 3, &info, false, &im, &notes, &err),
              SLIMSET_BAD_INPUT);
    CHECK_INT(vips_to_srgb(&im, NULL, 0, &im, &notes, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(vips_write_webp(&im, 80, false, &out, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_NO_DECODER);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "judge") == 0)
        return judge();
    RUN(test_without); /* before vips_start this process has none either */
#ifdef HAVE_VIPS
    RUN(test_sandbox);
    struct slimset_error err;
    if (vips_start(&image_limits_default, &err) != SLIMSET_OK) {
        printf("libvips is not here: %s\n", err.text);
    } else {
        RUN(test_formats);
        RUN(test_not_loaded);
        RUN(test_limits);
        RUN(test_bad_profile);
        RUN(test_webp_size);
    }
#endif
    return check_done();
}
