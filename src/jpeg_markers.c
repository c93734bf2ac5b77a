/* SPDX-License-Identifier: Apache-2.0 */
#include "jpeg_markers.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "jpeg_read.h"

/* ---- stepping from marker to marker ---- */

static bool has_no_body(uint8_t code)
{
    return code == MARKER_TEM || (code >= MARKER_RST0 && code <= MARKER_EOI);
}

/* The codes libjpeg handles; it gives up on the reserved ones, on JPGn and on hierarchical EXP. */
static bool is_known(uint8_t code)
{
    return has_no_body(code) || (code >= MARKER_SOF0 && code <= MARKER_SOF15) ||
           (code >= MARKER_SOS && code <= MARKER_DRI) ||
           (code >= MARKER_APP0 && code <= MARKER_APP15) || code == MARKER_COM;
}

static bool is_app_or_com(uint8_t code)
{
    return (code >= MARKER_APP0 && code <= MARKER_APP15) || code == MARKER_COM;
}

enum jpeg_step jpeg_cursor_next(struct jpeg_cursor *c, struct jpeg_segment *s)
{
    uint8_t code = 0;
    while (code == 0) {
        const uint8_t *ff = c->pos < c->n ? memchr(c->data + c->pos, 0xFF, c->n - c->pos) : NULL;
        if (ff == NULL) {
            c->garbage |= c->pos < c->n;
            c->pos = c->n;
            return JPEG_STEP_END;
        }
        size_t at = (size_t)(ff - c->data);
        c->garbage |= at != c->pos;
        while (at < c->n && c->data[at] == 0xFF)
            at++;
        if (at == c->n) {
            c->pos = at;
            return JPEG_STEP_END;
        }
        code = c->data[at];
        c->garbage |= code == 0; /* a stuffed byte outside a scan */
        c->pos = at + 1;
    }
    *s = (struct jpeg_segment){.code = code};
    if (!is_known(code))
        return JPEG_STEP_BAD;
    if (has_no_body(code))
        return JPEG_STEP_SEGMENT;
    if (c->n - c->pos < 2)
        return JPEG_STEP_CUT;
    size_t length = get_be16(c->data + c->pos);
    if (length < 2 && !is_app_or_com(code))
        return JPEG_STEP_BAD;
    if (length < 2)
        length = 2; /* libjpeg reads on behind the length: scans could hide there */
    if (length > c->n - c->pos)
        return JPEG_STEP_CUT;
    s->body = c->data + c->pos + 2;
    s->body_bytes = length - 2;
    c->pos += length;
    return JPEG_STEP_SEGMENT;
}

/* Whether 0xFF and this byte end a scan: not a stuffed zero, not fill, not a restart marker. */
static bool ends_scan(uint8_t b)
{
    return b != 0 && b != 0xFF && (b < MARKER_RST0 || b > MARKER_RST7);
}

void jpeg_cursor_skip_scan(struct jpeg_cursor *c)
{
    const uint8_t *p = c->data + c->pos, *end = c->data + c->n;
#if defined(__x86_64__)
    /* Every 200th byte or so of entropy data is 0xFF, nearly always followed by the stuffed zero:
     * both are tested for 16 positions at once, which is 3 times as fast as memchr. */
    const __m128i ff = _mm_set1_epi8((char)0xFF), zero = _mm_setzero_si128();
    while (end - p >= 17) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(p + 1));
        unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_andnot_si128(_mm_cmpeq_epi8(b, zero), _mm_cmpeq_epi8(a, ff)));
        for (; hits != 0; hits &= hits - 1) {
            const uint8_t *at = p + __builtin_ctz(hits);
            if (ends_scan(at[1])) {
                c->pos = (size_t)(at - c->data);
                return;
            }
        }
        p += 16;
    }
#endif
    while (end - p >= 2) {
        p = memchr(p, 0xFF, (size_t)(end - p) - 1);
        if (p == NULL)
            break;
        if (ends_scan(p[1])) {
            c->pos = (size_t)(p - c->data);
            return;
        }
        p++;
    }
    c->pos = c->n;
}

/* ---- what the segments say ---- */

bool jpeg_sof_progressive(uint8_t sof) { return sof == 0xC2 || sof == 0xCA; }

bool jpeg_sof_arithmetic(uint8_t sof) { return sof == 0xC9 || sof == 0xCA; }

static bool is_sof(uint8_t code)
{
    return code >= MARKER_SOF0 && code <= MARKER_SOF15 && code != MARKER_DHT && code != MARKER_DAC;
}

static bool begins(const struct jpeg_segment *s, const char *text, size_t n)
{
    return s->body_bytes >= n && memcmp(s->body, text, n) == 0;
}

/* The lengths are those from which libjpeg recognises the two markers. */
static bool is_jfif(const struct jpeg_segment *s)
{
    return s->code == MARKER_APP0 && s->body_bytes >= 14 && begins(s, "JFIF", 5);
}

static bool is_adobe(const struct jpeg_segment *s)
{
    return s->code == MARKER_APP14 && s->body_bytes >= 12 && begins(s, "Adobe", 5);
}

/* Chunks of an ICC profile: name, number from 1, count. */
enum { ICC_NAME_BYTES = 12, ICC_HEAD_BYTES = 14 };

static bool is_icc(const struct jpeg_segment *s)
{
    return s->code == MARKER_APP2 && s->body_bytes >= ICC_HEAD_BYTES &&
           begins(s, "ICC_PROFILE", ICC_NAME_BYTES);
}

static enum slimset_status read_frame(const struct jpeg_segment *s, struct jpeg_facts *f,
                                      struct slimset_error *err)
{
    if (f->sof != 0)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "two frame headers");
    f->sof = s->code;
    if (s->code == 0xC3)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "lossless JPEG (SOF3) is not supported");
    if (s->code > 0xC2 && s->code != 0xC9 && s->code != 0xCA)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED,
                       "lossless or hierarchical JPEG (SOF%d) is not supported",
                       s->code - MARKER_SOF0);
    if (s->body_bytes < 6)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "frame header of %zu bytes", s->body_bytes);
    f->bits = s->body[0];
    f->h = get_be16(s->body + 1);
    f->w = get_be16(s->body + 3);
    unsigned n = s->body[5];
    if (s->body_bytes != 6 + 3 * (size_t)n)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "frame header of %zu bytes for %u components",
                       s->body_bytes, n);
    if (f->bits != 8)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "JPEG with %u bits is not supported",
                       f->bits);
    if (n != 1 && n != 3 && n != 4)
        return err_bad(err, SLIMSET_REJECT_UNSUPPORTED, "JPEG with %u components is not supported",
                       n);
    f->n_components = (uint8_t)n;
    for (unsigned i = 0; i < n; i++) {
        const uint8_t *c = s->body + 6 + 3 * (size_t)i;
        f->id[i] = c[0];
        f->h_samp[i] = c[1] >> 4;
        f->v_samp[i] = c[1] & 15;
        if (f->h_samp[i] < 1 || f->h_samp[i] > 4 || f->v_samp[i] < 1 || f->v_samp[i] > 4)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "sampling factors %u x %u", f->h_samp[i],
                           f->v_samp[i]);
    }
    return SLIMSET_OK;
}

/* Adds to *seen the components whose coefficients this scan begins. False when malformed. */
static bool read_scan(const struct jpeg_segment *s, struct jpeg_facts *f, unsigned *seen)
{
    unsigned n = s->body_bytes > 0 ? s->body[0] : 0;
    if (n < 1 || n > 4 || s->body_bytes != 4 + 2 * (size_t)n)
        return false;
    f->scans++;
    if (f->scans == 1)
        f->multi_scan = n < f->n_components || jpeg_sof_progressive(f->sof);
    bool first_pass = s->body[1 + 2 * n] == 0; /* spectral selection starts at DC */
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 0; i < f->n_components; i++)
            if (f->id[i] == s->body[1 + 2 * k] && (first_pass || !jpeg_sof_progressive(f->sof)))
                *seen |= 1u << i;
    return true;
}

/* TIFF numbers of either byte order, for the MPO index. */
static uint32_t tiff_number(const uint8_t *p, unsigned bytes, bool big)
{
    if (bytes == 2)
        return big ? get_be16(p) : get_le16(p);
    return big ? get_be32(p) : get_le32(p);
}

/* Counts the further images that an MPO index (CIPA DC-007) points to and that begin like a JPEG.
 */
static uint32_t count_mpo_images(const uint8_t *data, size_t n, const struct jpeg_segment *s)
{
    enum { ENTRY_BYTES = 16, TAG_MP_ENTRY = 0xB002 };
    if (!begins(s, "MPF", 4) || s->body_bytes < 4 + 8)
        return 0;
    const uint8_t *tiff = s->body + 4;
    size_t tiff_bytes = s->body_bytes - 4, start = (size_t)(tiff - data);
    bool big = tiff[0] == 'M';
    uint32_t ifd = tiff_number(tiff + 4, 4, big), images = 0;
    if (ifd > tiff_bytes || tiff_bytes - ifd < 2)
        return 0;
    uint32_t n_tags = tiff_number(tiff + ifd, 2, big);
    for (uint32_t i = 0; i < n_tags && tiff_bytes - ifd >= 2 + 12 * ((size_t)i + 1); i++) {
        const uint8_t *tag = tiff + ifd + 2 + 12 * (size_t)i;
        uint32_t bytes = tiff_number(tag + 4, 4, big), at = tiff_number(tag + 8, 4, big);
        if (tiff_number(tag, 2, big) != TAG_MP_ENTRY || at > tiff_bytes || bytes > tiff_bytes - at)
            continue;
        for (uint32_t e = 0; e + ENTRY_BYTES <= bytes; e += ENTRY_BYTES) {
            size_t to = tiff_number(tiff + at + e + 8, 4, big); /* 0 is the first image itself */
            if (to != 0 && n >= 3 && start < n - 3 && to <= n - 3 - start &&
                memcmp(data + start + to, "\xFF\xD8\xFF", 3) == 0)
                images++;
        }
        break;
    }
    return images;
}

/* Chunks seen so far; a profile has at most 255. */
struct icc_chunks {
    unsigned count; /* as the first chunk says; 0: no profile */
    unsigned have;
    bool bad;
    const uint8_t *data[256];
    size_t bytes[256]; /* by number */
};

static void icc_chunk_add(struct icc_chunks *icc, const struct jpeg_segment *s)
{
    unsigned number = s->body[ICC_NAME_BYTES], count = s->body[ICC_NAME_BYTES + 1];
    if (icc->have == 0)
        icc->count = count;
    if (number == 0 || number > count || count != icc->count || icc->data[number] != NULL) {
        icc->bad = true;
        return;
    }
    icc->data[number] = s->body + ICC_HEAD_BYTES;
    icc->bytes[number] = s->body_bytes - ICC_HEAD_BYTES;
    icc->have++;
}

/* APPn and COM before the first scan, where libjpeg heeds JFIF and Adobe. */
static void read_app(const uint8_t *data, size_t n, const struct jpeg_segment *s,
                     struct jpeg_facts *f, struct icc_chunks *icc)
{
    if (is_jfif(s)) {
        f->metadata |= f->jfif || s->body_bytes != 14; /* a second one, or one with a thumbnail */
        f->jfif = true;
        return;
    }
    if (is_adobe(s)) {
        f->adobe = true;
        f->adobe_transform = s->body[11];
        f->metadata |= s->body_bytes != 12;
        return;
    }
    f->metadata = true;
    if (s->code == MARKER_APP1 && f->exif == NULL && begins(s, "Exif\0", 6)) {
        f->exif = s->body + 6;
        f->exif_bytes = s->body_bytes - 6;
    }
    if (is_icc(s)) {
        f->icc_bytes += s->body_bytes - ICC_HEAD_BYTES;
        icc_chunk_add(icc, s);
    } else if (s->code == MARKER_APP2 && f->images == 1) {
        f->images += count_mpo_images(data, n, s);
    }
}

/* A step that found no segment, before any scan. */
static enum slimset_status step_fault(enum jpeg_step step, const struct jpeg_cursor *c,
                                      const struct jpeg_segment *s, struct slimset_error *err)
{
    switch (step) {
    case JPEG_STEP_END:
        return err_bad(err, SLIMSET_REJECT_TRUNCATED, "ends before any picture data");
    case JPEG_STEP_CUT:
        return err_bad(err, SLIMSET_REJECT_TRUNCATED,
                       "marker 0x%02x at byte %zu ends after the file", s->code, c->pos - 2);
    default:
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "impossible marker 0x%02x at byte %zu", s->code,
                       c->pos - 2);
    }
}

enum slimset_status jpeg_facts_read(const uint8_t *data, size_t n, struct jpeg_facts *f,
                                    struct slimset_error *err)
{
    struct jpeg_cursor c = {.data = data, .n = n, .pos = 2};
    struct icc_chunks icc = {0};
    unsigned seen = 0;
    *f = (struct jpeg_facts){.images = 1, .end = n};
    if (n < 2 || data[0] != 0xFF || data[1] != MARKER_SOI)
        return err_bad(err, SLIMSET_REJECT_UNKNOWN_FORMAT, "does not begin with a JPEG marker");
    for (;;) {
        struct jpeg_segment s;
        enum jpeg_step step = jpeg_cursor_next(&c, &s);
        if (step != JPEG_STEP_SEGMENT) {
            if (f->scans == 0)
                return step_fault(step, &c, &s, err);
            break;
        }
        if (s.code == MARKER_EOI) {
            if (f->scans == 0)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "end marker before any picture data");
            f->eoi = true;
            f->end = c.pos;
            break;
        }
        if (f->scans > 0 && (s.code == MARKER_SOI || is_sof(s.code)))
            break;
        if (s.code == MARKER_SOI)
            return err_bad(err, SLIMSET_REJECT_CORRUPT, "two start markers");
        if (is_sof(s.code)) {
            enum slimset_status st = read_frame(&s, f, err);
            if (st != SLIMSET_OK)
                return st;
        } else if (s.code == MARKER_SOS) {
            if (f->sof == 0)
                return err_bad(err, SLIMSET_REJECT_CORRUPT, "a scan before the frame header");
            if (!read_scan(&s, f, &seen)) {
                if (f->scans == 0)
                    return err_bad(err, SLIMSET_REJECT_CORRUPT, "malformed scan header");
                break;
            }
            jpeg_cursor_skip_scan(&c);
        } else if (is_app_or_com(s.code)) {
            if (f->scans == 0)
                read_app(data, n, &s, f, &icc);
            else
                f->metadata |= !is_adobe(&s) || s.body_bytes != 12;
        }
    }
    f->garbage = c.garbage;
    f->all_components = seen == (1u << f->n_components) - 1;
    f->icc_bad = icc.bad || icc.have != icc.count;
    if (!f->icc_bad && icc.count == 1)
        f->icc = icc.data[1];
    return SLIMSET_OK;
}

enum image_colour jpeg_facts_colour(const struct jpeg_facts *f)
{
    if (f->n_components == 1)
        return IMAGE_GRAY;
    if (f->n_components == 4)
        return IMAGE_CMYK;
    if (f->jfif)
        return IMAGE_YCC;
    if (f->adobe)
        return f->adobe_transform == 0 ? IMAGE_RGB : IMAGE_YCC;
    return memcmp(f->id, "RGB", 3) == 0 ? IMAGE_RGB : IMAGE_YCC;
}

/* ---- rewriting ---- */

static enum slimset_status append_segment(struct buf *out, uint8_t code, const uint8_t *body,
                                          size_t body_bytes, struct slimset_error *err)
{
    uint8_t head[4] = {0xFF, code};
    put_be16(head + 2, (uint16_t)(body_bytes + 2));
    enum slimset_status st = buf_append(out, head, body != NULL ? 4 : 2, err);
    return st == SLIMSET_OK && body != NULL ? buf_append(out, body, body_bytes, err) : st;
}

/* A segment with what decoding needs of it, or nothing. */
static enum slimset_status strip_segment(struct buf *out, const struct jpeg_segment *s, bool *jfif,
                                         struct slimset_error *err)
{
    if (is_jfif(s)) {
        if (*jfif)
            return SLIMSET_OK;
        *jfif = true;
        uint8_t body[14];
        memcpy(body, s->body, sizeof body);
        body[12] = body[13] = 0; /* thumbnail of 0 x 0 */
        return append_segment(out, s->code, body, sizeof body, err);
    }
    if (is_adobe(s)) /* all of them: the last one counts for libjpeg, the first one for others */
        return append_segment(out, s->code, s->body, 12, err);
    if (is_app_or_com(s->code))
        return SLIMSET_OK;
    return append_segment(out, s->code, s->body, s->body_bytes, err);
}

enum slimset_status jpeg_strip(const uint8_t *data, size_t n, struct buf *out,
                               struct slimset_error *err)
{
    struct jpeg_cursor c = {.data = data, .n = n, .pos = 2};
    size_t before = out->len;
    bool jfif = false, scan = false;
    if (n < 2 || data[0] != 0xFF || data[1] != MARKER_SOI)
        return err_bad(err, SLIMSET_REJECT_UNKNOWN_FORMAT, "does not begin with a JPEG marker");
    enum slimset_status st = append_segment(out, MARKER_SOI, NULL, 0, err);
    while (st == SLIMSET_OK) {
        struct jpeg_segment s;
        enum jpeg_step step = jpeg_cursor_next(&c, &s);
        if (scan && step != JPEG_STEP_SEGMENT) { /* no EOI: what stands behind the rows is left out, whatever it is */
            st = append_segment(out, MARKER_EOI, NULL, 0, err);
            break;
        }
        if (step != JPEG_STEP_SEGMENT) {
            st = step_fault(step, &c, &s, err);
            break;
        }
        st = strip_segment(out, &s, &jfif, err);
        if (s.code == MARKER_EOI)
            break;
        if (st == SLIMSET_OK && s.code == MARKER_SOS) {
            size_t from = c.pos;
            scan = true;
            jpeg_cursor_skip_scan(&c);
            size_t to = c.pos;
            if (to == n && n > from && data[n - 1] == 0xFF)
                to--; /* half of a marker that was cut */
            st = buf_append(out, data + from, to - from, err);
        }
    }
    if (st != SLIMSET_OK)
        out->len = before;
    return st;
}

enum slimset_status jpeg_icc(const uint8_t *data, size_t n, struct buf *out,
                             struct slimset_error *err)
{
    struct jpeg_cursor c = {.data = data, .n = n, .pos = 2};
    struct icc_chunks icc = {0};
    struct jpeg_segment s;
    size_t before = out->len;
    while (jpeg_cursor_next(&c, &s) == JPEG_STEP_SEGMENT && s.code != MARKER_SOS &&
           s.code != MARKER_EOI)
        if (is_icc(&s))
            icc_chunk_add(&icc, &s);
    if (icc.have == 0 && !icc.bad)
        return err_set(err, SLIMSET_NOT_FOUND, "no ICC profile");
    if (icc.bad || icc.have != icc.count)
        return err_bad(err, SLIMSET_REJECT_CORRUPT, "ICC profile with %u good chunks of %u",
                       icc.have, icc.count);
    enum slimset_status st = SLIMSET_OK;
    for (unsigned i = 1; i <= icc.count && st == SLIMSET_OK; i++)
        st = buf_append(out, icc.data[i], icc.bytes[i], err);
    if (st != SLIMSET_OK)
        out->len = before;
    return st;
}
