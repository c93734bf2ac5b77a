/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's life, libjpeg's callbacks and with them the acceptance table, and the two ends of a
 * decode.
 */
#include <stdlib.h>
#include <string.h>

#include "jpeg_impl.h"

#include <jerror.h>

/* ---- callbacks ---- */

enum {
    ZERO_RUN_BYTES = 256, /* half a disk sector of zeros is no picture */
    PIECE_BYTES = 256     /* below the 512 for each block of an MCU that the fast decoder wants */
};

static const JOCTET fake_eoi[2] = {0xFF, JPEG_EOI};

_Noreturn void jpeg_fail(struct jpeg_reader *r) { longjmp(r->jump, 1); }

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
    jpeg_fail(r);
}

static void on_error(j_common_ptr common)
{
    struct jpeg_reader *r = common->client_data;
    switch (r->errors.msg_code) {
    case JERR_OUT_OF_MEMORY:
        err_set(r->err, SLIMSET_NO_MEMORY, "no memory to decode a JPEG");
        jpeg_fail(r);
    case JERR_BAD_LIB_VERSION:
    case JERR_BAD_STRUCT_SIZE:
    case JERR_BAD_STATE:
    case JERR_BUFFER_SIZE: {
        char text[JMSG_LENGTH_MAX];
        r->errors.format_message(common, text);
        err_set(r->err, SLIMSET_INTERNAL, "libjpeg: %s", text);
        jpeg_fail(r);
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

/* Zeros in place of picture data, as a failed disk or a sparse download leaves them: the decoder
 * makes blocks of them, too many or too few, and is left with data behind the last one. Such data
 * are harmless by themselves (some scanners and cameras write them), so it is the zeros that are
 * looked for, in what was decoded of the scan. Not where they are how a flat picture is coded. */
static bool has_zero_block(const struct jpeg_reader *r)
{
    const struct jpeg_decompress_struct *cinfo = &r->cinfo;
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->comps_in_scan < 1)
        return false;
    const jpeg_component_info *comp = cinfo->cur_comp_info[0];
    const JHUFF_TBL *dc = cinfo->dc_huff_tbl_ptrs[comp->dc_tbl_no],
                    *ac = cinfo->ac_huff_tbl_ptrs[comp->ac_tbl_no];
    if (dc == NULL || ac == NULL || (dc->huffval[0] == 0 && ac->huffval[0] == 0))
        return false;
    /* libjpeg stands behind the marker, the bytes it did not use are before that. */
    size_t at = (size_t)(r->source.next_input_byte - r->data), unused = 2;
    if (r->errors.msg_parm.i[0] > 0)
        unused += (size_t)r->errors.msg_parm.i[0];
    unsigned run = 0;
    for (at = at > unused ? at - unused : 0; at > 1 && run < ZERO_RUN_BYTES; at--) {
        if (r->data[at - 2] == 0xFF && r->data[at - 1] == 0xDA)
            return false; /* the beginning of the scan */
        run = r->data[at - 1] == 0 ? run + 1 : 0;
    }
    return run == ZERO_RUN_BYTES;
}

/* The acceptance table. The first warning that rejects ends the decode: nothing behind it matters.
 */
static void on_message(j_common_ptr common, int level)
{
    struct jpeg_reader *r = common->client_data;
    if (level >= 0)
        return; /* a trace message */
    switch (r->errors.msg_code) {
    case JWRN_JPEG_EOF: /* jpeg_end judges it when it is known what was missing */
        break;
    case JWRN_EXTRANEOUS_DATA:
        if (!r->dry && has_zero_block(r)) {
            err_bad(r->err, SLIMSET_REJECT_CORRUPT,
                    "zero bytes in place of picture data, and data left over behind the last row");
            jpeg_fail(r);
        }
        r->left_over = true;
        r->notes |= NOTE_WARNING;
        break;
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
        jpeg_fail(r);
    }
}

static void source_nothing(j_decompress_ptr cinfo) { (void)cinfo; }

/* The next piece. Where all bytes were handed out, being asked for more means that the file is
 * short. An end marker lets libjpeg come to its end; that it was not in the file is remembered. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    struct jpeg_reader *r = cinfo->client_data;
    if (r->given < r->n) {
        size_t left = r->n - r->given;
        r->source.next_input_byte = r->data + r->given;
        r->source.bytes_in_buffer = left < r->piece_bytes ? left : r->piece_bytes;
        r->given += r->source.bytes_in_buffer;
        return TRUE;
    }
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
    size_t left = (size_t)n;
    while (left > r->source.bytes_in_buffer && !r->dry) {
        left -= r->source.bytes_in_buffer;
        source_fill(cinfo);
    }
    if (r->dry)
        return;
    r->source.next_input_byte += left;
    r->source.bytes_in_buffer -= left;
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

/* ---- the ends of a decode ---- */

void jpeg_prepare(struct jpeg_reader *r, const uint8_t *data, size_t n,
                  const struct image_info *info, struct slimset_error *err)
{
    r->info = info;
    r->err = err;
    r->notes = 0;
    r->dry = r->left_over = false;
    r->data = data;
    r->n = n;
    r->piece_bytes = n;
}

bool jpeg_is_doubtful(const struct jpeg_reader *r)
{
    return (r->left_over || r->dry) && !r->info->progressive && !r->info->arithmetic;
}

void jpeg_slowly(struct jpeg_reader *r) { r->piece_bytes = PIECE_BYTES; }

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

void jpeg_begin(struct jpeg_reader *r)
{
    struct jpeg_decompress_struct *cinfo = &r->cinfo;
    const struct image_info *info = r->info;
    renew(r);
    r->source.next_input_byte = r->data;
    r->source.bytes_in_buffer = r->n < r->piece_bytes ? r->n : r->piece_bytes;
    r->given = r->source.bytes_in_buffer;
    jpeg_read_header(cinfo, TRUE);
    if (cinfo->image_width != info->w || cinfo->image_height != info->h ||
        cinfo->num_components != info->channels || cinfo->num_components > COMPONENTS_MAX ||
        !can_become(cinfo->jpeg_color_space, info->colour)) {
        err_set(r->err, SLIMSET_INTERNAL, "JPEG header and decoder do not agree");
        jpeg_fail(r);
    }
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->do_block_smoothing = FALSE; /* no guessing; it differs between versions of the library */
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
        jpeg_fail(r);
    }
    if (!all)
        r->notes |= NOTE_WARNING;
}

enum slimset_status jpeg_end(struct jpeg_reader *r, uint32_t *notes)
{
    judge_progression(r);
    jpeg_finish_decompress(&r->cinfo); /* reads up to EOI */
    if (r->dry && r->info->arithmetic)
        return err_bad(r->err, SLIMSET_REJECT_TRUNCATED,
                       "no end marker, arithmetic-coded data may be short");
    if (r->dry)
        r->notes |= NOTE_WARNING;
    else if (r->source.bytes_in_buffer > 0 || r->given < r->n)
        r->notes |= NOTE_TAIL_BYTES;
    *notes |= r->notes;
    return SLIMSET_OK;
}

enum slimset_status jpeg_cut_short(struct jpeg_reader *r, uint32_t *notes)
{
    judge_progression(r);
    jpeg_abort_decompress(&r->cinfo);
    *notes |= r->notes;
    return SLIMSET_OK;
}

enum slimset_status jpeg_failed(struct jpeg_reader *r)
{
    jpeg_destroy_decompress(&r->cinfo); /* gives its memory back now */
    return r->err->status;
}
