/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a judge ask the reader: one question a line on stdin, answers on stdout.
 *
 *   decode I FIELD CHANNELS LAYOUT SCALE MIN_W MIN_H X Y W H STRIDE
 *       "ok W H CHANNELS BITS BYTES\n" and the bytes
 *   resize I FIELD W H FIT CHANNELS LAYOUT FAST NEAREST X Y BW BH
 *       "ok BYTES\n" and the bytes
 *   batch N FIELD W H THREADS       samples 0 .. N-1
 *       "ok BYTES\n" and the bytes
 *   array I FIELD
 *       "ok DTYPE FORTRAN DIMS [SHAPE...] BYTES\n" and the bytes
 * or "STATUS TEXT\n". FIELD "-": the first one that is an image (batch).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slimset/reader.h"

static struct slimset_reader *r;
static struct slimset_error err;

static void say_failed(enum slimset_status st) { printf("%d %s\n", (int)st, err.text); }

static enum slimset_status field(uint64_t i, const char *name, uint32_t *k)
{
    return slimset_reader_field_named(r, i, name, strlen(name), k, &err);
}

static void decode(const char *args)
{
    uint64_t i;
    char name[100];
    unsigned channels, layout, scale;
    uint32_t k;
    struct slimset_decode_options o;
    struct slimset_pixels size, px;
    slimset_decode_options_init(&o);
    if (sscanf(args, "%" SCNu64 " %99s %u %u %u %u %u %u %u %u %u %zu", &i, name, &channels, &layout, &scale, &o.min_w,
               &o.min_h, &o.crop.x, &o.crop.y, &o.crop.w, &o.crop.h, &o.stride_bytes) != 12)
        exit(2);
    o.channels = (uint8_t)channels;
    o.layout = layout != 0 ? SLIMSET_CHW : SLIMSET_HWC;
    o.scale = (uint8_t)scale;
    uint8_t *buf = NULL;
    enum slimset_status st = field(i, name, &k);
    if (st == SLIMSET_OK)
        st = slimset_reader_decode_size(r, i, k, &o, &size, &err);
    if (st == SLIMSET_OK) {
        buf = malloc(size.bytes);
        memset(buf, 0xEE, size.bytes);
        st = slimset_reader_decode(r, i, k, &o, buf, size.bytes, &px, &err);
    }
    if (st == SLIMSET_OK && (px.w != size.w || px.h != size.h || px.channels != size.channels || px.bits != size.bits ||
                             px.bytes != size.bytes))
        puts("99 decode and decode_size do not agree");
    else if (st == SLIMSET_OK) {
        printf("ok %u %u %u %u %zu\n", px.w, px.h, px.channels, px.bits, px.bytes);
        fwrite(buf, 1, px.bytes, stdout);
    } else {
        say_failed(st);
    }
    free(buf);
}

static void resize(const char *args)
{
    uint64_t i;
    char name[100];
    unsigned fit, channels, layout, fast, nearest;
    uint32_t k;
    struct slimset_resize_options o;
    struct slimset_box box;
    slimset_resize_options_init(&o);
    if (sscanf(args, "%" SCNu64 " %99s %u %u %u %u %u %u %u %u %u %u %u", &i, name, &o.w, &o.h, &fit, &channels, &layout,
               &fast, &nearest, &box.x, &box.y, &box.w, &box.h) != 13)
        exit(2);
    o.fit = (enum slimset_fit)fit;
    o.channels = (uint8_t)channels;
    o.layout = layout != 0 ? SLIMSET_CHW : SLIMSET_HWC;
    o.fast = fast != 0;
    o.nearest = nearest != 0;
    size_t bytes = (size_t)o.w * o.h * channels;
    uint8_t *buf = malloc(bytes + 1);
    enum slimset_status st = field(i, name, &k);
    if (st == SLIMSET_OK)
        st = slimset_reader_decode_resized(r, i, k, &o, box.w != 0 ? &box : NULL, buf, bytes, &err);
    if (st == SLIMSET_OK) {
        printf("ok %zu\n", bytes);
        fwrite(buf, 1, bytes, stdout);
    } else {
        say_failed(st);
    }
    free(buf);
}

static void batch(const char *args)
{
    unsigned n, threads;
    char name[100];
    struct slimset_resize_options o;
    slimset_resize_options_init(&o);
    if (sscanf(args, "%u %99s %u %u %u", &n, name, &o.w, &o.h, &threads) != 5)
        exit(2);
    size_t bytes = (size_t)n * o.w * o.h * 3, failed = 0;
    uint8_t *buf = malloc(bytes + 1);
    uint64_t *samples = malloc((n + 1) * sizeof *samples);
    for (unsigned i = 0; i < n; i++)
        samples[i] = i;
    bool any = strcmp(name, "-") == 0;
    enum slimset_status st = slimset_reader_decode_batch(r, samples, n, any ? NULL : name, strlen(name), &o, NULL,
                                                         threads, buf, bytes, &failed, &err);
    if (st == SLIMSET_OK) {
        printf("ok %zu\n", bytes);
        fwrite(buf, 1, bytes, stdout);
    } else {
        printf("%d at %zu: %s\n", (int)st, failed, err.text);
    }
    free(samples);
    free(buf);
}

static void array(const char *args)
{
    uint64_t i;
    char name[100];
    uint32_t k;
    struct slimset_array a;
    uint8_t *buf = NULL;
    if (sscanf(args, "%" SCNu64 " %99s", &i, name) != 2)
        exit(2);
    enum slimset_status st = field(i, name, &k);
    if (st == SLIMSET_OK)
        st = slimset_reader_array(r, i, k, &a, NULL, 0, &err);
    if (st == SLIMSET_OK) {
        buf = malloc(a.bytes + 1);
        st = slimset_reader_array(r, i, k, &a, buf, a.bytes, &err);
    }
    if (st == SLIMSET_OK) {
        printf("ok %s %d %u", a.dtype, a.fortran, a.dims);
        for (unsigned d = 0; d < a.dims; d++)
            printf(" %" PRIu64, a.shape[d]);
        printf(" %" PRIu64 "\n", a.bytes);
        fwrite(buf, 1, a.bytes, stdout);
    } else {
        say_failed(st);
    }
    free(buf);
}

int main(int argc, char **argv)
{
    char line[1000];
    struct slimset_reader_options options;
    slimset_reader_options_init(&options);
    if (argc < 2 || slimset_reader_open_with(argv[1], &options, &r, &err) != SLIMSET_OK) {
        fprintf(stderr, "%s\n", argc < 2 ? "reader_tool OUT" : err.text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "decode ", 7) == 0)
            decode(line + 7);
        else if (strncmp(line, "resize ", 7) == 0)
            resize(line + 7);
        else if (strncmp(line, "batch ", 6) == 0)
            batch(line + 6);
        else if (strncmp(line, "array ", 6) == 0)
            array(line + 6);
        else
            return 2;
        fflush(stdout);
    }
    slimset_reader_close(r);
    return 0;
}
