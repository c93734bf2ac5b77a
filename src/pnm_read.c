/* SPDX-License-Identifier: Apache-2.0
 *
 * PBM, PGM and PPM in, plain and raw, as the netpbm manual pages define them: header tokens
 * separated by white space, comments from '#' to the end of the line, exactly one white space byte
 * between the last token and a raw raster, two-byte samples big-endian.
 */
#include "bmp_read.h"

#include <string.h>

struct pnm {
    char kind; /* '1'..'6' */
    uint32_t w, h, maxval;
    size_t raster; /* offset of the raster */
    unsigned channels;
    unsigned sample_bytes; /* of a raw sample; 0 for PBM */
    bool plain;
    uint32_t notes;
};

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Moves *at over white space and comments. */
static void skip_space(const uint8_t *data, size_t n, size_t *at)
{
    while (*at < n) {
        if (data[*at] == '#') {
            while (*at < n && data[*at] != '\n' && data[*at] != '\r')
                (*at)++;
        } else if (is_space(data[*at])) {
            (*at)++;
        } else {
            return;
        }
    }
}

/* One unsigned decimal number after optional space. */
static enum slimset_status number(const uint8_t *data, size_t n, size_t *at, uint32_t *out,
                                  struct slimset_error *err)
{
    skip_space(data, n, at);
    if (*at >= n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "PNM of %zu bytes ends before its last number", n);
    if (data[*at] < '0' || data[*at] > '9')
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNM has byte 0x%02x where a number should be",
                       data[*at]);
    uint32_t v = 0;
    while (*at < n && data[*at] >= '0' && data[*at] <= '9') {
        if (v > 99999999u)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNM with a number of more than 9 digits");
        v = v * 10 + (uint32_t)(data[*at] - '0');
        (*at)++;
    }
    *out = v;
    return SLIMSET_OK;
}

static enum slimset_status parse(const uint8_t *data, size_t n, const struct image_limits *limits,
                                 struct pnm *p, struct slimset_error *err)
{
    memset(p, 0, sizeof *p);
    if (n < 3)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNM of %zu bytes ends inside its header", n);
    if (data[0] != 'P' || data[1] < '1' || data[1] > '6' || (!is_space(data[2]) && data[2] != '#'))
        return err_bad(err, SLIMSET_REJECT_UNKNOWN_FORMAT, "not a PBM, PGM or PPM");
    p->kind = (char)data[1];
    p->plain = p->kind <= '3';
    p->channels = p->kind == '3' || p->kind == '6' ? 3 : 1;
    bool bitmap = p->kind == '1' || p->kind == '4';
    size_t at = 2;
    enum slimset_status st = number(data, n, &at, &p->w, err);
    if (st == SLIMSET_OK)
        st = number(data, n, &at, &p->h, err);
    p->maxval = 1;
    if (st == SLIMSET_OK && !bitmap)
        st = number(data, n, &at, &p->maxval, err);
    if (st == SLIMSET_OK && limits != NULL)
        st = image_limits_check(limits, p->w, p->h, err);
    if (st != SLIMSET_OK)
        return st;
    if (p->maxval == 0 || p->maxval > 65535)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNM with maximum value %u", p->maxval);
    if (at >= n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNM of %zu bytes ends inside its header", n);
    if (!p->plain && !is_space(data[at]))
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNM has byte 0x%02x after its header",
                       data[at]);
    p->raster = p->plain ? at : at + 1;
    p->sample_bytes = bitmap ? 0 : p->maxval > 255 ? 2 : 1;

    /* How many bytes the raster has at least: known before any memory is asked for. */
    uint64_t samples = (uint64_t)p->w * p->h * p->channels, need;
    if (p->plain)
        need = bitmap || samples == 0 ? samples : samples * 2 - 1;
    else
        need = bitmap ? ((uint64_t)p->w + 7) / 8 * p->h : samples * p->sample_bytes;
    if (n - p->raster < need)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNM has %zu of %llu bytes of pixels",
                       n - p->raster, (unsigned long long)need);
    if (!p->plain && n - p->raster > need)
        p->notes |= NOTE_TAIL_BYTES;
    return SLIMSET_OK;
}

enum slimset_status pnm_read_header(const uint8_t *data, size_t n,
                                    const struct image_limits *limits, struct image_info *info,
                                    struct slimset_error *err)
{
    struct pnm p;
    enum slimset_status st = parse(data, n, limits, &p, err);
    if (st != SLIMSET_OK)
        return st;
    memset(info, 0, sizeof *info);
    info->format = FORMAT_PNM;
    info->w = p.w;
    info->h = p.h;
    info->orientation = 1;
    info->channels = (uint8_t)p.channels;
    info->bits = p.sample_bytes == 0 ? 1 : p.sample_bytes == 2 ? 16 : 8;
    info->colour = p.channels == 3 ? IMAGE_RGB : IMAGE_GRAY;
    info->frames = 1;
    info->notes = p.notes | (info->bits == 1 ? NOTE_EXPANDED : 0);
    return SLIMSET_OK;
}

/* Sample number i of a raw PGM or PPM. */
static uint32_t raw_sample(const struct pnm *p, const uint8_t *raster, uint64_t i)
{
    return p->sample_bytes == 2 ? get_be16(raster + i * 2) : raster[i];
}

static enum slimset_status plain_sample(const struct pnm *p, const uint8_t *data, size_t n,
                                        size_t *at, uint32_t *v, struct slimset_error *err)
{
    if (p->kind != '1')
        return number(data, n, at, v, err);
    skip_space(data, n, at); /* the digits of a plain PBM need no space between them */
    if (*at >= n)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "PNM of %zu bytes ends before its last pixel",
                       n);
    if (data[*at] != '0' && data[*at] != '1')
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "PBM has byte 0x%02x among its pixels",
                       data[*at]);
    *v = data[*at] == '1';
    (*at)++;
    return SLIMSET_OK;
}

static enum slimset_status decode_row(const struct pnm *p, const uint8_t *data, size_t n,
                                      size_t *at, uint32_t y, const struct image *out,
                                      struct slimset_error *err)
{
    bool bitmap = p->kind == '1' || p->kind == '4';
    uint32_t full = p->maxval > 255 ? 65535u : 255u;
    const uint8_t *raster = data + p->raster;
    for (uint32_t x = 0; x < p->w; x++) {
        for (unsigned c = 0; c < p->channels; c++) {
            uint32_t v = 0;
            if (p->kind == '4') {
                const uint8_t *row = raster + ((uint64_t)p->w + 7) / 8 * y;
                v = row[x / 8] >> (7 - x % 8) & 1u;
            } else if (p->plain) {
                enum slimset_status st = plain_sample(p, data, n, at, &v, err);
                if (st != SLIMSET_OK)
                    return st;
            } else {
                v = raw_sample(p, raster, ((uint64_t)y * p->w + x) * p->channels + c);
            }
            if (v > p->maxval)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "PNM sample %u above its maximum %u", v,
                               p->maxval);
            if (bitmap)
                v = 1 - v; /* 1 is black */
            if (p->maxval != full)
                v = (uint32_t)(((uint64_t)v * full + p->maxval / 2) / p->maxval);
            uint8_t *q = out->plane[c].data + (size_t)y * out->plane[c].stride_bytes;
            if (full == 65535u)
                ((uint16_t *)(void *)q)[x] = (uint16_t)v;
            else
                q[x] = (uint8_t)v;
        }
    }
    return SLIMSET_OK;
}

enum slimset_status pnm_decode(const uint8_t *data, size_t n, const struct image_info *info,
                               struct image *out, uint32_t *notes, struct slimset_error *err)
{
    struct pnm p;
    enum slimset_status st = parse(data, n, NULL, &p, err);
    if (st != SLIMSET_OK)
        return st;
    if (p.w != info->w || p.h != info->h || p.w == 0 || p.h == 0)
        return err_set(err, SLIMSET_INTERNAL, "PNM is not the one whose header was read");
    st = image_setup(out, info->colour, false, p.maxval > 255 ? 16 : 8, p.w, p.h, err);
    size_t at = p.raster;
    for (uint32_t y = 0; y < p.h && st == SLIMSET_OK; y++)
        st = decode_row(&p, data, n, &at, y, out, err);
    if (st != SLIMSET_OK)
        return st;
    *notes |= info->notes;
    if (p.plain) {
        skip_space(data, n, &at);
        if (at < n)
            *notes |= NOTE_TAIL_BYTES;
    }
    return SLIMSET_OK;
}
