/* SPDX-License-Identifier: Apache-2.0
 *
 * As in jpeg_read.c, libjpeg's callbacks find all they need in the writer, and every fault comes
 * back to the one setjmp in jpeg_write.
 */
#include "jpeg_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <jerror.h>
#include <jpeglib.h>

enum {
    ROWS_MAX = 2 * DCTSIZE, /* of a component in one row of MCUs: we write factors 1 and 2 */
    TABLES = 2,             /* Huffman tables of each kind: luma, chroma */
    GROW_MIN_BYTES = 64 << 10
};

struct jpeg_writer {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf jump;
    /* libjpeg-turbo fills its table slots once and leaves them alone if they are filled: without
     * these copies a plain picture would get the tables of the optimised one before it. */
    JHUFF_TBL standard_dc[TABLES], standard_ac[TABLES];
    struct buf pad; /* rows made longer: up to whole blocks, or pixels */
    JSAMPROW rows[3][ROWS_MAX];
    /* of the picture that is being written */
    struct buf *out;
    struct slimset_error *err;
};

/* ---- callbacks ---- */

_Noreturn static void fail(struct jpeg_writer *w) { longjmp(w->jump, 1); }

static void on_error(j_common_ptr common)
{
    struct jpeg_writer *w = common->client_data;
    char text[JMSG_LENGTH_MAX];
    w->errors.format_message(common, text);
    if (w->errors.msg_code == JERR_OUT_OF_MEMORY)
        err_set(w->err, SLIMSET_NO_MEMORY, "no memory to encode a JPEG");
    else
        err_set(w->err, SLIMSET_INTERNAL, "libjpeg: %s", text);
    fail(w);
}

static void on_message(j_common_ptr common, int level)
{
    (void)common;
    (void)level;
}

static void on_output(j_common_ptr common) { (void)common; /* the library never prints */ }

/* Makes room behind out->len and shows it to libjpeg; as much again as is there, but not beyond
 * what the buffer may hold. */
static void grow(struct jpeg_writer *w)
{
    struct buf *out = w->out;
    size_t step = out->len > GROW_MIN_BYTES ? out->len : GROW_MIN_BYTES;
    if (out->cap - out->len >= GROW_MIN_BYTES)
        step = out->cap - out->len;
    if (out->max != 0 && out->max > out->len && step > out->max - out->len)
        step = out->max - out->len;
    if (buf_reserve(out, step, w->err) != SLIMSET_OK)
        fail(w);
    w->destination.next_output_byte = out->data + out->len;
    w->destination.free_in_buffer = out->cap - out->len;
}

static void destination_init(j_compress_ptr cinfo) { grow(cinfo->client_data); }

static boolean destination_full(j_compress_ptr cinfo)
{
    struct jpeg_writer *w = cinfo->client_data;
    w->out->len = w->out->cap; /* by contract free_in_buffer is to be ignored here */
    grow(w);
    return TRUE;
}

static void destination_term(j_compress_ptr cinfo)
{
    struct jpeg_writer *w = cinfo->client_data;
    w->out->len = w->out->cap - w->destination.free_in_buffer;
}

/* ---- life ---- */

/* False when libjpeg has no memory. */
static bool create(struct jpeg_writer *w)
{
    struct slimset_error err; /* not told: there is only one reason */
    w->err = &err;
    w->cinfo.err = jpeg_std_error(&w->errors);
    w->cinfo.client_data = w; /* jpeg_create_compress keeps these two */
    w->errors.error_exit = on_error;
    w->errors.emit_message = on_message;
    w->errors.output_message = on_output;
    if (setjmp(w->jump) != 0)
        return false;
    jpeg_create_compress(&w->cinfo);
    w->destination = (struct jpeg_destination_mgr){.init_destination = destination_init,
                                                   .empty_output_buffer = destination_full,
                                                   .term_destination = destination_term};
    w->cinfo.dest = &w->destination;
    w->cinfo.in_color_space = JCS_YCbCr;
    w->cinfo.input_components = 3;
    jpeg_set_defaults(&w->cinfo);
    for (unsigned i = 0; i < TABLES; i++) {
        w->standard_dc[i] = *w->cinfo.dc_huff_tbl_ptrs[i];
        w->standard_ac[i] = *w->cinfo.ac_huff_tbl_ptrs[i];
    }
    w->err = NULL;
    return true;
}

struct jpeg_writer *jpeg_writer_new(void)
{
    struct jpeg_writer *w = calloc(1, sizeof *w);
    if (w != NULL && !create(w)) {
        jpeg_writer_free(w);
        return NULL;
    }
    return w;
}

void jpeg_writer_free(struct jpeg_writer *w)
{
    if (w == NULL)
        return;
    if (w->cinfo.mem != NULL)
        jpeg_destroy_compress(&w->cinfo);
    buf_fini(&w->pad);
    free(w);
}

/* ---- pixels ---- */

static uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* Planes to pixels of four bytes; the fourth is zero, libjpeg does not look at it. */
static void interleave4(const uint8_t *const *from, uint8_t *to, uint32_t w)
{
    uint32_t x = 0;
#if defined(__x86_64__)
    const __m128i zero = _mm_setzero_si128();
    for (; x + 16 <= w; x += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from[0] + x));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from[1] + x));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from[2] + x));
        __m128i ab_lo = _mm_unpacklo_epi8(a, b), ab_hi = _mm_unpackhi_epi8(a, b);
        __m128i c_lo = _mm_unpacklo_epi8(c, zero), c_hi = _mm_unpackhi_epi8(c, zero);
        __m128i *p = (__m128i *)(void *)(to + 4 * (size_t)x);
        _mm_storeu_si128(p, _mm_unpacklo_epi16(ab_lo, c_lo));
        _mm_storeu_si128(p + 1, _mm_unpackhi_epi16(ab_lo, c_lo));
        _mm_storeu_si128(p + 2, _mm_unpacklo_epi16(ab_hi, c_hi));
        _mm_storeu_si128(p + 3, _mm_unpackhi_epi16(ab_hi, c_hi));
    }
#endif
    for (; x < w; x++) {
        for (unsigned i = 0; i < 3; i++)
            to[4 * (size_t)x + i] = from[i][x];
        to[4 * (size_t)x + 3] = 0;
    }
}

static void need_pad(struct jpeg_writer *w, size_t bytes)
{
    w->pad.len = 0;
    if (buf_reserve(&w->pad, bytes, w->err) != SLIMSET_OK)
        fail(w);
}

/* Planes as they are. libjpeg reads whole blocks: rows of other lengths go through a copy whose
 * last sample is repeated, one row of MCUs at a time; rows beyond the last are the last again. The
 * image is only read: planes may be parts of larger ones. */
static void write_planes(struct jpeg_writer *w, const struct image *im)
{
    struct jpeg_compress_struct *cinfo = &w->cinfo;
    JSAMPARRAY planes[3] = {w->rows[0], w->rows[1], w->rows[2]};
    size_t padded[3], offset[3], total = 0;
    for (unsigned i = 0; i < im->n_planes; i++) {
        padded[i] = (size_t)ceil_div(im->plane[i].w, DCTSIZE) * DCTSIZE;
        offset[i] = total;
        if (padded[i] != im->plane[i].w)
            total += padded[i] * ROWS_MAX;
    }
    need_pad(w, total);
    unsigned lines = (unsigned)cinfo->max_v_samp_factor * DCTSIZE;
    for (uint32_t mcu_row = 0; cinfo->next_scanline < cinfo->image_height; mcu_row++) {
        for (unsigned i = 0; i < im->n_planes; i++) {
            const struct image_plane *p = &im->plane[i];
            unsigned rows = (unsigned)cinfo->comp_info[i].v_samp_factor * DCTSIZE;
            for (unsigned y = 0; y < rows; y++) {
                uint64_t at = (uint64_t)mcu_row * rows + y;
                if (at >= p->h && y > 0) { /* every row of MCUs holds at least one row of ours */
                    w->rows[i][y] = w->rows[i][y - 1];
                    continue;
                }
                uint8_t *from = p->data + at * p->stride_bytes;
                w->rows[i][y] = from;
                if (padded[i] == p->w)
                    continue;
                uint8_t *to = w->pad.data + offset[i] + y * padded[i];
                memcpy(to, from, p->w);
                memset(to + p->w, from[p->w - 1], padded[i] - p->w);
                w->rows[i][y] = to;
            }
        }
        jpeg_write_raw_data(cinfo, planes, lines);
    }
}

static void write_rgb(struct jpeg_writer *w, const struct image *im)
{
    need_pad(w, (size_t)im->w * 4);
    while (w->cinfo.next_scanline < w->cinfo.image_height) {
        const uint8_t *from[3];
        for (unsigned i = 0; i < 3; i++)
            from[i] =
                im->plane[i].data + (size_t)w->cinfo.next_scanline * im->plane[i].stride_bytes;
        JSAMPROW row = w->pad.data;
        interleave4(from, row, im->w);
        jpeg_write_scanlines(&w->cinfo, &row, 1);
    }
}

/* ---- the picture ---- */

struct sampling {
    int h, v; /* of luma; chroma has 1 x 1 */
};

static struct sampling sampling_of(enum image_colour colour, enum jpeg_subsampling subsampling)
{
    if (colour == IMAGE_GRAY || subsampling == JPEG_444)
        return (struct sampling){1, 1};
    return (struct sampling){2, subsampling == JPEG_420 ? 2 : 1};
}

static enum slimset_status check_image(const struct image *im, struct sampling s,
                                       struct slimset_error *err)
{
    bool known = im->colour == IMAGE_GRAY || im->colour == IMAGE_YCC || im->colour == IMAGE_RGB;
    if (!known || im->alpha || im->bits != 8 || im->w == 0 || im->h == 0 ||
        im->n_planes != image_colour_planes(im->colour))
        return err_set(err, SLIMSET_INTERNAL, "a JPEG of %u x %u, %u planes, %u bits, colour %d",
                       im->w, im->h, im->n_planes, im->bits, im->colour);
    if (im->w > JPEG_MAX_DIMENSION || im->h > JPEG_MAX_DIMENSION)
        return err_bad(err, SLIMSET_REJECT_TOO_MANY_PIXELS,
                       "%u x %u pixels, a JPEG's sides end at %ld", im->w, im->h,
                       (long)JPEG_MAX_DIMENSION);
    for (unsigned i = 0; i < im->n_planes; i++) {
        bool chroma = im->colour == IMAGE_YCC && i > 0;
        uint32_t w = chroma ? ceil_div(im->w, (uint32_t)s.h) : im->w;
        uint32_t h = chroma ? ceil_div(im->h, (uint32_t)s.v) : im->h;
        if (im->plane[i].w != w || im->plane[i].h != h)
            return err_set(err, SLIMSET_INTERNAL, "plane %u has %u x %u samples, not %u x %u", i,
                           im->plane[i].w, im->plane[i].h, w, h);
    }
    return SLIMSET_OK;
}

static void configure(struct jpeg_writer *w, const struct image *im,
                      const struct jpeg_settings *settings, struct sampling s)
{
    struct jpeg_compress_struct *cinfo = &w->cinfo;
    bool gray = im->colour == IMAGE_GRAY, rgb = im->colour == IMAGE_RGB;
    cinfo->image_width = im->w;
    cinfo->image_height = im->h;
    cinfo->in_color_space = gray ? JCS_GRAYSCALE : rgb ? JCS_EXT_RGBX : JCS_YCbCr;
    cinfo->input_components = gray ? 1 : rgb ? 4 : 3;
    jpeg_set_defaults(cinfo); /* gray or YCbCr with a JFIF header */
    for (unsigned i = 0; i < TABLES; i++) {
        *cinfo->dc_huff_tbl_ptrs[i] = w->standard_dc[i];
        *cinfo->ac_huff_tbl_ptrs[i] = w->standard_ac[i];
    }
    jpeg_set_quality(cinfo, settings->quality, TRUE);
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->optimize_coding = settings->optimise;
    cinfo->raw_data_in = !rgb;
    for (int i = 0; i < cinfo->num_components; i++) {
        cinfo->comp_info[i].h_samp_factor = i == 0 ? s.h : 1;
        cinfo->comp_info[i].v_samp_factor = i == 0 ? s.v : 1;
    }
}

enum slimset_status jpeg_write(struct jpeg_writer *w, const struct image *im,
                               const struct jpeg_settings *settings, struct buf *out,
                               struct slimset_error *err)
{
    struct sampling s = sampling_of(im->colour, settings->subsampling);
    enum slimset_status st = check_image(im, s, err);
    if (st != SLIMSET_OK)
        return st;
    const size_t before = out->len;
    w->out = out;
    w->err = err;
    if (setjmp(w->jump) != 0) {
        jpeg_abort_compress(&w->cinfo);
        w->out->len = before;
        return w->err->status;
    }
    configure(w, im, settings, s);
    jpeg_start_compress(&w->cinfo, TRUE);
    if (w->cinfo.raw_data_in)
        write_planes(w, im);
    else
        write_rgb(w, im);
    jpeg_finish_compress(&w->cinfo);
    return SLIMSET_OK;
}
