/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "exif.h"
#include "jpeg_impl.h"
#include "jpeg_markers.h"

/* ---- header ---- */

static uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* The largest sampling factors of a frame. */
struct sampling {
    unsigned h, v;
};

static struct sampling max_sampling(const struct jpeg_facts *f)
{
    struct sampling max = {1, 1};
    for (unsigned i = 0; i < f->n_components; i++) {
        max.h = f->h_samp[i] > max.h ? f->h_samp[i] : max.h;
        max.v = f->v_samp[i] > max.v ? f->v_samp[i] : max.v;
    }
    return max;
}

/* Components that are 2/3 or 3/4 of another's size: legal, but libjpeg cannot upsample them, so no
 * reader of a dataset could have used the file either. */
static enum slimset_status check_sampling(const struct jpeg_facts *f, struct slimset_error *err)
{
    struct sampling max = max_sampling(f);
    for (unsigned i = 0; i < f->n_components; i++)
        if (max.h % f->h_samp[i] != 0 || max.v % f->v_samp[i] != 0)
            return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                           "sampling factors %u x %u beside %u x %u are not supported",
                           f->h_samp[i], f->v_samp[i], max.h, max.v);
    return SLIMSET_OK;
}

/* Bytes of coefficients libjpeg will hold for a file of several scans: blocks padded to MCUs. */
static uint64_t coefficient_bytes(const struct jpeg_facts *f)
{
    struct sampling max = max_sampling(f);
    uint64_t mcus = ceil_div(f->w, max.h * 8u) * ceil_div(f->h, max.v * 8u), blocks = 0;
    for (unsigned i = 0; i < f->n_components; i++)
        blocks += mcus * f->h_samp[i] * f->v_samp[i];
    return blocks * sizeof(JBLOCK);
}

static enum slimset_status check_scans(const struct image_limits *limits,
                                       const struct jpeg_facts *f, struct slimset_error *err)
{
    uint64_t pixels = (uint64_t)f->w * f->h;
    if (f->scans > limits->max_scans)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_SCANS, "%u scans, limit %u", f->scans,
                       limits->max_scans);
    if (!f->multi_scan)
        return SLIMSET_OK;
    if (pixels * f->scans > limits->max_scan_pixels)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_SCANS,
                       "%u scans of %llu pixels, limit %llu for their product", f->scans,
                       (unsigned long long)pixels, (unsigned long long)limits->max_scan_pixels);
    uint64_t bytes = coefficient_bytes(f);
    if (bytes > MEMORY_SLACK_BYTES && bytes / COEFFICIENT_BYTES_PER_PX > limits->max_pixels)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_PIXELS,
                       "%u x %u pixels in several scans need %llu bytes of coefficients", f->w,
                       f->h, (unsigned long long)bytes);
    if (!f->all_components)
        return err_bad(err, f->eoi ? SLIMSET_REJECT_CORRUPT : SLIMSET_REJECT_TRUNCATED,
                       "a colour component has no scan");
    return SLIMSET_OK;
}

enum slimset_status jpeg_reader_header(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                       struct image_info *info, struct slimset_error *err)
{
    struct jpeg_facts f;
    enum slimset_status st = jpeg_facts_read(data, n, &f, err);
    if (st == SLIMSET_OK)
        st = image_limits_check(&r->limits, f.w, f.h, err);
    if (st == SLIMSET_OK)
        st = check_sampling(&f, err);
    if (st == SLIMSET_OK)
        st = check_scans(&r->limits, &f, err);
    if (st != SLIMSET_OK)
        return st;
    *info = (struct image_info){
        .format = FORMAT_JPEG,
        .w = f.w,
        .h = f.h,
        .orientation = f.exif != NULL ? (uint8_t)exif_orientation(f.exif, f.exif_bytes) : 1,
        .channels = f.n_components,
        .bits = f.bits,
        .progressive = jpeg_sof_progressive(f.sof),
        .arithmetic = jpeg_sof_arithmetic(f.sof),
        .colour = jpeg_facts_colour(&f),
        .frames = f.images,
        .icc = f.icc,
        .icc_bytes = f.icc_bytes,
        .has_metadata = f.metadata,
    };
    memcpy(info->h_samp, f.h_samp, sizeof info->h_samp);
    memcpy(info->v_samp, f.v_samp, sizeof info->v_samp);
    if (f.end < n)
        info->notes |= NOTE_TAIL_BYTES;
    if (f.garbage || !f.eoi)
        info->notes |= NOTE_WARNING;
    if (f.images > 1)
        info->notes |= NOTE_FIRST_FRAME;
    if (f.icc_bad)
        info->notes |= NOTE_PROFILE_BAD;
    return SLIMSET_OK;
}

/* ---- pixels ---- */

/* Four-byte pixels to planes; n_planes 3 drops the fourth byte. */
static void deinterleave4(const uint8_t *from, uint8_t *const *to, unsigned n_planes, uint32_t w)
{
    uint32_t x = 0;
#if defined(__x86_64__)
    const __m128i low = _mm_set1_epi32(0xFF);
    for (; x + 16 <= w; x += 16) {
        __m128i v[4];
        for (unsigned k = 0; k < 4; k++)
            v[k] = _mm_loadu_si128((const __m128i *)(const void *)(from + 4 * (size_t)x + 16 * k));
        for (unsigned i = 0; i < n_planes; i++) {
            __m128i a = _mm_packs_epi32(_mm_and_si128(v[0], low), _mm_and_si128(v[1], low));
            __m128i b = _mm_packs_epi32(_mm_and_si128(v[2], low), _mm_and_si128(v[3], low));
            _mm_storeu_si128((__m128i *)(void *)(to[i] + x), _mm_packus_epi16(a, b));
            for (unsigned k = 0; k < 4; k++)
                v[k] = _mm_srli_epi32(v[k], 8);
        }
    }
#endif
    for (; x < w; x++)
        for (unsigned i = 0; i < n_planes; i++)
            to[i][x] = from[4 * (size_t)x + i];
}

static void need_row(struct jpeg_reader *r, size_t bytes)
{
    r->row.len = 0;
    if (buf_reserve(&r->row, bytes, r->err) != SLIMSET_OK)
        jpeg_fail(r);
}

static void need_planes(struct jpeg_reader *r, struct image *out, enum image_colour colour,
                        unsigned n, const uint32_t *w, const uint32_t *h)
{
    if (image_setup_planes(out, colour, false, 8, r->info->w, r->info->h, n, w, h, r->err) !=
        SLIMSET_OK)
        jpeg_fail(r);
}

/* Components without upsampling or conversion, straight into the planes of out. libjpeg writes
 * whole blocks: up to 7 samples beyond a row's end, for which IMAGE_ROW_SLACK has room, and rows
 * beyond the last, which go to a row that nobody reads; so does everything when out is NULL. */
static void decode_raw(struct jpeg_reader *r, struct image *out)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    unsigned n = (unsigned)cinfo->num_components;
    uint32_t w[COMPONENTS_MAX], h[COMPONENTS_MAX];
    size_t widest = 0;
    cinfo->out_color_space = cinfo->jpeg_color_space;
    cinfo->raw_data_out = TRUE;
    jpeg_calc_output_dimensions(cinfo);
    for (unsigned i = 0; i < n; i++) {
        const jpeg_component_info *comp = &cinfo->comp_info[i];
        size_t padded = (size_t)comp->width_in_blocks * BLOCK_SIZE(comp);
        w[i] = comp->downsampled_width;
        h[i] = comp->downsampled_height;
        widest = padded > widest ? padded : widest;
    }
    need_row(r, widest + IMAGE_ROW_SLACK);
    if (out != NULL) {
        need_planes(r, out, r->info->colour, n, w, h);
        for (unsigned i = 0; i < n; i++) {
            const jpeg_component_info *comp = &cinfo->comp_info[i];
            double block = BLOCK_SIZE(comp);
            out->plane[i].per_px_x = comp->h_samp_factor * block / (cinfo->max_h_samp_factor * 8.0);
            out->plane[i].per_px_y = comp->v_samp_factor * block / (cinfo->max_v_samp_factor * 8.0);
        }
    }
    jpeg_start_decompress(cinfo);
    JSAMPARRAY planes[COMPONENTS_MAX];
    for (unsigned i = 0; i < COMPONENTS_MAX; i++) {
        planes[i] = r->rows[i];
        for (unsigned y = 0; y < ROWS_MAX; y++)
            r->rows[i][y] = r->row.data;
    }
    unsigned lines = (unsigned)cinfo->max_v_samp_factor * MIN_BLOCK_SIZE(cinfo);
    for (uint32_t mcu_row = 0; cinfo->output_scanline < cinfo->output_height; mcu_row++) {
        for (unsigned i = 0; i < n && out != NULL; i++) {
            const jpeg_component_info *comp = &cinfo->comp_info[i];
            const struct image_plane *p = &out->plane[i];
            unsigned rows = (unsigned)comp->v_samp_factor * BLOCK_SIZE(comp);
            for (unsigned y = 0; y < rows; y++) {
                uint64_t at = (uint64_t)mcu_row * rows + y;
                r->rows[i][y] = at < p->h ? p->data + at * p->stride_bytes : r->row.data;
            }
        }
        if (jpeg_read_raw_data(cinfo, planes, lines) == 0) {
            err_set(r->err, SLIMSET_INTERNAL, "libjpeg gave no rows");
            jpeg_fail(r);
        }
    }
}

/* Upsampled and converted by libjpeg; planes of the scaled picture's size. */
static void decode_rows(struct jpeg_reader *r, unsigned denom, struct image *out)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    unsigned n = image_colour_planes(r->info->colour);
    /* With 4 bytes a pixel taking pixels apart is cheap; the values are those of JCS_RGB. */
    cinfo->out_color_space = r->info->colour == IMAGE_RGB    ? JCS_EXT_RGBX
                             : r->info->colour == IMAGE_CMYK ? JCS_CMYK
                                                             : JCS_YCbCr;
    jpeg_calc_output_dimensions(cinfo);
    uint32_t w[COMPONENTS_MAX], h[COMPONENTS_MAX];
    for (unsigned i = 0; i < n; i++) {
        w[i] = cinfo->output_width;
        h[i] = cinfo->output_height;
    }
    need_planes(r, out, r->info->colour, n, w, h);
    for (unsigned i = 0; i < n; i++)
        out->plane[i].per_px_x = out->plane[i].per_px_y = 1.0 / denom;
    unsigned pixel_bytes = (unsigned)cinfo->out_color_components; /* 4; 3 for YCbCr */
    need_row(r, (size_t)cinfo->output_width * pixel_bytes);
    jpeg_start_decompress(cinfo);
    while (cinfo->output_scanline < cinfo->output_height) {
        JSAMPROW row = r->row.data;
        uint8_t *to[COMPONENTS_MAX];
        for (unsigned i = 0; i < n; i++)
            to[i] =
                out->plane[i].data + (size_t)cinfo->output_scanline * out->plane[i].stride_bytes;
        if (jpeg_read_scanlines(cinfo, &row, 1) != 1) {
            err_set(r->err, SLIMSET_INTERNAL, "libjpeg gave no row");
            jpeg_fail(r);
        }
        if (pixel_bytes == 4) {
            deinterleave4(row, to, n, cinfo->output_width);
            continue;
        }
        for (uint32_t x = 0; x < cinfo->output_width; x++)
            for (unsigned i = 0; i < 3; i++)
                to[i][x] = row[3 * (size_t)x + i];
    }
}

static bool same_sampling(const struct jpeg_decompress_struct *cinfo)
{
    for (int i = 1; i < cinfo->num_components; i++)
        if (cinfo->comp_info[i].h_samp_factor != cinfo->comp_info[0].h_samp_factor ||
            cinfo->comp_info[i].v_samp_factor != cinfo->comp_info[0].v_samp_factor)
            return false;
    return true;
}

/* Whether the components as stored are planes of the wanted colour. */
static bool can_be_raw(const struct jpeg_decompress_struct *cinfo, enum image_colour want)
{
    switch (cinfo->jpeg_color_space) {
    case JCS_GRAYSCALE:
        return true;
    case JCS_YCbCr: /* all code behind us takes luma for the sharpest plane */
        return want == IMAGE_YCC && cinfo->comp_info[0].h_samp_factor == cinfo->max_h_samp_factor &&
               cinfo->comp_info[0].v_samp_factor == cinfo->max_v_samp_factor;
    case JCS_RGB:
    case JCS_CMYK:
        return same_sampling(cinfo);
    default: /* YCCK */
        return false;
    }
}

/* Decodes into out, or only checks when out is NULL. */
static enum slimset_status run_once(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                    const struct image_info *info, unsigned denom, bool slowly,
                                    struct image *out, uint32_t *notes, struct slimset_error *err)
{
    jpeg_prepare(r, data, n, info, err);
    if (slowly)
        jpeg_slowly(r);
    if (setjmp(r->jump) != 0)
        return jpeg_failed(r);
    jpeg_begin(r);
    r->cinfo.scale_num = 1;
    r->cinfo.scale_denom = denom;
    if (out == NULL || can_be_raw(&r->cinfo, info->colour))
        decode_raw(r, out);
    else
        decode_rows(r, denom, out);
    return jpeg_end(r, notes);
}

static enum slimset_status jpeg_run(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                    const struct image_info *info, unsigned denom,
                                    struct image *out, uint32_t *notes, struct slimset_error *err)
{
    enum slimset_status st = run_once(r, data, n, info, denom, false, out, notes, err);
    if (st == SLIMSET_OK && jpeg_is_doubtful(r))
        st = run_once(r, data, n, info, 8, true, NULL, notes, err);
    return st;
}

enum slimset_status jpeg_decode(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                const struct image_info *info, unsigned denom, struct image *out,
                                uint32_t *notes, struct slimset_error *err)
{
    if (denom != 1 && denom != 2 && denom != 4 && denom != 8)
        return err_set(err, SLIMSET_INTERNAL, "a JPEG cannot be decoded at 1/%u", denom);
    return jpeg_run(r, data, n, info, denom, out, notes, err);
}

enum slimset_status jpeg_check(struct jpeg_reader *r, const uint8_t *data, size_t n,
                               const struct image_info *info, uint32_t *notes,
                               struct slimset_error *err)
{
    return jpeg_run(r, data, n, info, 8, NULL, notes, err);
}
