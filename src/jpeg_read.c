/* SPDX-License-Identifier: Apache-2.0
 *
 * libjpeg reports through callbacks that may not return, so everything a callback needs lives in
 * the reader: jpeg_run sets it up, arms the one jump buffer, and whatever goes wrong below comes
 * back there with *r->err filled. Nothing between setjmp and the jump owns memory outside reader
 * and image.
 */
#include "jpeg_read.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <jerror.h>
#include <jpeglib.h>

#include "exif.h"
#include "jpeg_markers.h"

/* libjpeg 7 gave the two axes scaled block sizes of their own; libjpeg-turbo is built with either
 * interface (Debian: 62, Ubuntu: 80), and in both the two are equal. */
#if JPEG_LIB_VERSION >= 70
#define BLOCK_SIZE(comp) ((unsigned)(comp)->DCT_h_scaled_size)
#define MIN_BLOCK_SIZE(cinfo) ((unsigned)(cinfo)->min_DCT_v_scaled_size)
#else
#define BLOCK_SIZE(comp) ((unsigned)(comp)->DCT_scaled_size)
#define MIN_BLOCK_SIZE(cinfo) ((unsigned)(cinfo)->min_DCT_scaled_size)
#endif

enum {
    COMPONENTS_MAX = 4,
    ROWS_MAX = 4 * DCTSIZE, /* of a component in one row of MCUs: sampling factor 4 */
    /* 16-bit coefficients of three full-size components; what files of the pixel limit need. */
    COEFFICIENT_BYTES_PER_PX = 6,
    /* For libjpeg's own check, which counts its other buffers too. */
    MEMORY_SLACK_BYTES = 64 << 20
};

struct jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct image_limits limits;
    struct buf row; /* one row of pixels, or the row nobody reads in raw output */
    JSAMPROW rows[COMPONENTS_MAX][ROWS_MAX];
    /* of the file that is being decoded */
    const struct image_info *info;
    struct slimset_error *err;
    uint32_t notes;
    bool dry; /* the source ran out of bytes before EOI */
};

/* ---- callbacks ---- */

static const JOCTET fake_eoi[2] = {0xFF, JPEG_EOI};

_Noreturn static void fail(struct jpeg_reader *r) { longjmp(r->jump, 1); }

/* "libjpeg's text, at row N of H" */
_Noreturn static void fail_bad(struct jpeg_reader *r, enum slimset_reject reject)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    char text[JMSG_LENGTH_MAX];
    r->errors.format_message((j_common_ptr)cinfo, text);
    if (r->info != NULL && cinfo->output_scanline < cinfo->output_height) {
        uint64_t row = (uint64_t)cinfo->output_scanline * r->info->h / cinfo->output_height;
        err_bad(r->err, reject, "%s, at row %llu of %u", text, (unsigned long long)row, r->info->h);
    } else {
        err_bad(r->err, reject, "%s", text);
    }
    fail(r);
}

static void on_error(j_common_ptr common)
{
    struct jpeg_reader *r = common->client_data;
    switch (r->errors.msg_code) {
    case JERR_OUT_OF_MEMORY:
        err_set(r->err, SLIMSET_NO_MEMORY, "no memory to decode a JPEG");
        fail(r);
    case JERR_BAD_LIB_VERSION:
    case JERR_BAD_STRUCT_SIZE:
    case JERR_BAD_STATE:
    case JERR_BUFFER_SIZE: {
        char text[JMSG_LENGTH_MAX];
        r->errors.format_message(common, text);
        err_set(r->err, SLIMSET_INTERNAL, "libjpeg: %s", text);
        fail(r);
    }
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_ARITH_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_COMPONENT_COUNT:
        fail_bad(r, SLIMSET_REJECT_UNSUPPORTED);
    case JERR_NO_BACKING_STORE:
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        fail_bad(r, SLIMSET_REJECT_TOO_MANY_PIXELS);
    default:
        fail_bad(r, r->dry ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT);
    }
}

/* The acceptance table. The first warning that rejects ends the decode: nothing behind it matters.
 */
static void on_message(j_common_ptr common, int level)
{
    struct jpeg_reader *r = common->client_data;
    if (level >= 0)
        return; /* a trace message */
    switch (r->errors.msg_code) {
    case JWRN_JPEG_EOF: /* jpeg_run judges it when it is known what was missing */
        break;
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_ADOBE_XFORM:
    case JWRN_TOO_MUCH_DATA:
        r->notes |= NOTE_WARNING;
        break;
    default: /* HIT_MARKER, HUFF_BAD_CODE, ARITH_BAD_CODE, MUST_RESYNC, BOGUS_PROGRESSION */
        fail_bad(r, r->dry ? SLIMSET_REJECT_TRUNCATED : SLIMSET_REJECT_CORRUPT);
    }
}

static void on_output(j_common_ptr common) { (void)common; /* the library never prints */ }

/* The header walk has counted the scans already; this holds should libjpeg ever see more of them.
 */
static void on_progress(j_common_ptr common)
{
    struct jpeg_reader *r = common->client_data;
    int scans = r->cinfo.input_scan_number;
    if (scans > 0 && (unsigned)scans > r->limits.max_scans) {
        err_bad(r->err, SLIMSET_REJECT_TOO_MANY_SCANS, "more than %u scans", r->limits.max_scans);
        fail(r);
    }
}

static void source_nothing(j_decompress_ptr cinfo) { (void)cinfo; }

/* All bytes were there from the start, so being asked for more means that the file is short. An end
 * marker lets libjpeg come to its end; that it was not in the file is remembered. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    struct jpeg_reader *r = cinfo->client_data;
    r->source.next_input_byte = fake_eoi;
    r->source.bytes_in_buffer = sizeof fake_eoi;
    if (!r->dry) {
        r->dry = true;
        WARNMS(cinfo, JWRN_JPEG_EOF);
    }
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long n)
{
    struct jpeg_reader *r = cinfo->client_data;
    if (n <= 0)
        return;
    if ((size_t)n > r->source.bytes_in_buffer) {
        source_fill(cinfo);
        return;
    }
    r->source.next_input_byte += n;
    r->source.bytes_in_buffer -= (size_t)n;
}

/* ---- life ---- */

/* A new libjpeg object, for every file: an old one keeps the Huffman and quantisation tables of the
 * file before, and would decode with them what has lost its own. Costs a few small allocations. */
static void renew(struct jpeg_reader *r)
{
    jpeg_destroy_decompress(&r->cinfo); /* takes a zeroed object, too */
    jpeg_create_decompress(&r->cinfo);  /* keeps err and client_data */
    uint64_t px = r->limits.max_pixels < (1ull << 40) ? r->limits.max_pixels : 1ull << 40;
    /* Set here so that the environment cannot (JPEGMEM). */
    r->cinfo.mem->max_memory_to_use = (long)(px * COEFFICIENT_BYTES_PER_PX + MEMORY_SLACK_BYTES);
    r->cinfo.src = &r->source;
    r->cinfo.progress = &r->progress;
}

struct jpeg_reader *jpeg_reader_new(const struct image_limits *limits)
{
    struct jpeg_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->limits = *limits;
    r->cinfo.err = jpeg_std_error(&r->errors);
    r->cinfo.client_data = r;
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->errors.output_message = on_output;
    r->source = (struct jpeg_source_mgr){.init_source = source_nothing,
                                         .fill_input_buffer = source_fill,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_nothing};
    r->progress.progress_monitor = on_progress;
    return r;
}

void jpeg_reader_free(struct jpeg_reader *r)
{
    if (r == NULL)
        return;
    jpeg_destroy_decompress(&r->cinfo);
    buf_fini(&r->row);
    free(r);
}

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
        fail(r);
}

static void need_planes(struct jpeg_reader *r, struct image *out, enum image_colour colour,
                        unsigned n, const uint32_t *w, const uint32_t *h)
{
    if (image_setup_planes(out, colour, false, 8, r->info->w, r->info->h, n, w, h, r->err) !=
        SLIMSET_OK)
        fail(r);
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
            fail(r);
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
            fail(r);
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

static bool can_become(J_COLOR_SPACE stored, enum image_colour want)
{
    switch (want) {
    case IMAGE_GRAY:
        return stored == JCS_GRAYSCALE;
    case IMAGE_YCC:
        return stored == JCS_YCbCr;
    case IMAGE_RGB:
        return stored == JCS_YCbCr || stored == JCS_RGB;
    case IMAGE_CMYK:
        return stored == JCS_CMYK || stored == JCS_YCCK;
    default:
        return false;
    }
}

/* A progressive file may legally stop refining, but a file that stops without end marker was cut.
 */
static void judge_progression(struct jpeg_reader *r)
{
    const struct jpeg_decompress_struct *cinfo = &r->cinfo;
    if (cinfo->coef_bits == NULL)
        return;
    bool all = true;
    for (int i = 0; i < cinfo->num_components; i++)
        for (int k = 0; k < DCTSIZE2; k++)
            all = all && cinfo->coef_bits[i][k] == 0;
    if (!all && r->dry) {
        err_bad(r->err, SLIMSET_REJECT_TRUNCATED, "ends after scan %d, coefficients are missing",
                cinfo->input_scan_number);
        fail(r);
    }
    if (!all)
        r->notes |= NOTE_WARNING;
}

/* Decodes into out, or only checks when out is NULL. */
static enum slimset_status jpeg_run(struct jpeg_reader *r, const uint8_t *data, size_t n,
                                    const struct image_info *info, unsigned denom,
                                    struct image *out, uint32_t *notes, struct slimset_error *err)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    r->info = info;
    r->err = err;
    r->notes = 0;
    r->dry = false;
    if (setjmp(r->jump) != 0) {
        jpeg_destroy_decompress(&r->cinfo); /* gives its memory back now */
        return r->err->status;
    }
    renew(r);
    r->source.next_input_byte = data;
    r->source.bytes_in_buffer = n;
    jpeg_read_header(cinfo, TRUE);
    if (cinfo->image_width != info->w || cinfo->image_height != info->h ||
        cinfo->num_components != info->channels || cinfo->num_components > COMPONENTS_MAX ||
        !can_become(cinfo->jpeg_color_space, info->colour)) {
        err_set(err, SLIMSET_INTERNAL, "JPEG header and decoder do not agree");
        fail(r);
    }
    cinfo->scale_num = 1;
    cinfo->scale_denom = denom;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->do_block_smoothing = FALSE; /* no guessing; it differs between versions of the library */
    if (out == NULL || can_be_raw(cinfo, info->colour))
        decode_raw(r, out);
    else
        decode_rows(r, denom, out);
    judge_progression(r);
    jpeg_finish_decompress(cinfo); /* reads up to EOI */
    if (r->dry && info->arithmetic)
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "no end marker, arithmetic-coded data may be short");
    if (r->dry)
        r->notes |= NOTE_WARNING;
    else if (r->source.bytes_in_buffer > 0)
        r->notes |= NOTE_TAIL_BYTES;
    *notes |= r->notes;
    return SLIMSET_OK;
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
