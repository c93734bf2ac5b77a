/* SPDX-License-Identifier: Apache-2.0
 *
 * The yardstick of the whole program: the bare job in one process, with the project's own modules
 * and nothing around them: no walk, no plan, no workers, no sandbox, no checksums, no index, no
 * fsync. What `slimset pack -j1` needs beyond this is what the rest of the program costs.
 *
 *   floor long:512|short:256 OUTPUT LIST
 *
 * LIST names one file a line (JPEG or PNG). Each is read, decoded, resized with Lanczos-3 and
 * written as JPEG quality 90, 4:2:0, optimised, to the end of OUTPUT. Prints "images N",
 * "cpu_ms_per_image X", "bytes N".
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "geometry.h"
#include "jpeg_read.h"
#include "jpeg_write.h"
#include "png_read.h"
#include "resize.h"

struct floor {
    struct slimset_recipe recipe;
    struct jpeg_reader *jpeg;
    struct png_reader *png;
    struct jpeg_writer *writer;
    struct resampler *resampler;
    struct image decoded, scratch, small; /* reused from image to image */
    struct buf out;
    int fd;
    unsigned long long images, bytes;
};

/* The largest scaled decode that leaves at least a factor of two to the resampler. */
static unsigned denominator(const struct geometry *g)
{
    double ratio = g->src_w / g->dst_w, other = g->src_h / g->dst_h;
    if (other < ratio)
        ratio = other;
    return ratio >= 16 ? 8 : ratio >= 8 ? 4 : ratio >= 4 ? 2 : 1;
}

static enum slimset_status decode(struct floor *f, const uint8_t *data, size_t n,
                                  struct geometry *g, int *orientation, struct slimset_error *err)
{
    struct image_info info = {0};
    uint32_t notes = 0;
    bool png = n > 8 && memcmp(data, "\x89PNG", 4) == 0;
    enum slimset_status st = png ? png_read_header(f->png, data, n, &info, err)
                                 : jpeg_reader_header(f->jpeg, data, n, &info, err);
    if (st != SLIMSET_OK)
        return st;
    *orientation = info.orientation;
    bool swap = info.orientation >= 5;
    *g = geometry_of(&f->recipe, swap ? info.h : info.w, swap ? info.w : info.h);
    if (png)
        return png_decode(f->png, data, n, &info, false, &f->decoded, &notes, err);
    return jpeg_decode(f->jpeg, data, n, &info, denominator(g), &f->decoded, &notes, err);
}

static enum slimset_status one(struct floor *f, const char *path, struct slimset_error *err)
{
    static const struct jpeg_settings settings = {
        .quality = 90, .subsampling = JPEG_420, .optimise = true};
    static const uint8_t white[3] = {255, 255, 255};
    uint8_t *data = NULL;
    size_t n = 0;
    struct geometry g;
    int orientation;
    enum slimset_status st = io_read_file(AT_FDCWD, path, 1u << 30, &data, &n, err);
    if (st == SLIMSET_OK)
        st = decode(f, data, n, &g, &orientation, err);
    if (st == SLIMSET_OK) {
        struct resize_job job = {.geometry = &g,
                                 .orientation = orientation,
                                 .sub_x = 2,
                                 .sub_y = 2,
                                 .background = white};
        st = resize_image(f->resampler, &f->decoded, &job, &f->scratch, &f->small, err);
    }
    f->out.len = 0;
    if (st == SLIMSET_OK)
        st = jpeg_write(f->writer, &f->small, &settings, &f->out, err);
    if (st == SLIMSET_OK)
        st = io_write(f->fd, f->out.data, f->out.len, "the output file", err);
    if (st == SLIMSET_OK) {
        f->images++;
        f->bytes += f->out.len;
    }
    free(data);
    return st;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* "long:512" or "short:256", so that the yardstick does not need the program's own parser. */
static bool parse_mode(struct floor *f, const char *text)
{
    bool is_long = strncmp(text, "long:", 5) == 0;
    if (!is_long && strncmp(text, "short:", 6) != 0)
        return false;
    char *end;
    unsigned long side = strtoul(strchr(text, ':') + 1, &end, 10);
    f->recipe.resize = is_long ? SLIMSET_RESIZE_LONG : SLIMSET_RESIZE_SHORT;
    f->recipe.resize_a = (uint32_t)side;
    return *end == '\0' && side > 0 && side < 65500;
}

int main(int argc, char **argv)
{
    struct slimset_error err = {0};
    struct floor f = {.fd = -1};
    FILE *list = NULL;
    char *line = NULL;
    size_t line_cap = 0;
    ssize_t n;
    int rc = 1;
    if (argc != 4 || !parse_mode(&f, argv[1])) {
        fprintf(stderr, "usage: floor long:N|short:N OUTPUT LIST\n");
        return 2;
    }
    f.jpeg = jpeg_reader_new(&image_limits_default);
    f.png = png_reader_new(&image_limits_default);
    f.writer = jpeg_writer_new();
    f.resampler = resampler_new();
    f.fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    list = fopen(argv[3], "re");
    if (!f.jpeg || !f.png || !f.writer || !f.resampler || f.fd < 0 || !list) {
        perror("floor");
        goto out;
    }
    double start = cpu_seconds();
    while ((n = getline(&line, &line_cap, list)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (one(&f, line, &err) != SLIMSET_OK) {
            fprintf(stderr, "floor: %s: %s\n", line, err.text);
            goto out;
        }
    }
    double used = cpu_seconds() - start;
    printf("images %llu\ncpu_ms_per_image %.4f\nbytes %llu\n", f.images,
           f.images ? used * 1e3 / (double)f.images : 0.0, f.bytes);
    rc = 0;
out:
    free(line);
    if (list)
        fclose(list);
    if (f.fd >= 0)
        close(f.fd);
    image_fini(&f.decoded);
    image_fini(&f.scratch);
    image_fini(&f.small);
    buf_fini(&f.out);
    jpeg_reader_free(f.jpeg);
    png_reader_free(f.png);
    jpeg_writer_free(f.writer);
    resampler_free(f.resampler);
    return rc;
}
