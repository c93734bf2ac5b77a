/* SPDX-License-Identifier: Apache-2.0 */
#include "sniff.h"

#include <string.h>

static bool has(const uint8_t *data, size_t n, size_t at, const char *magic, size_t magic_bytes)
{
    return n >= at && n - at >= magic_bytes && memcmp(data + at, magic, magic_bytes) == 0;
}
#define HAS(at, literal) has(data, n, at, literal, sizeof(literal) - 1)

/* ---- formats whose first bytes are a fixed string ---- */

struct magic {
    uint8_t format;
    uint16_t at;
    uint8_t n_bytes;
    const char *bytes;
};
/* clang-format off */
#define MAGIC(f, at, literal) {f, at, sizeof(literal) - 1, literal}
/* clang-format on */

static const struct magic magics[] = {
    MAGIC(FORMAT_JPEG, 0, "\xFF\xD8\xFF"),
    MAGIC(FORMAT_PNG, 0, "\x89PNG\r\n\x1A\n"),
    MAGIC(FORMAT_GIF, 0, "GIF87a"),
    MAGIC(FORMAT_GIF, 0, "GIF89a"),
    MAGIC(FORMAT_TIFF, 0, "II*\0"),
    MAGIC(FORMAT_TIFF, 0, "MM\0*"),
    MAGIC(FORMAT_TIFF, 0, "II+\0\x08\0\0\0"), /* BigTIFF */
    MAGIC(FORMAT_TIFF, 0, "MM\0+\0\x08\0\0"),
    MAGIC(FORMAT_JXL, 0, "\xFF\x0A"),
    MAGIC(FORMAT_JXL, 0, "\0\0\0\x0CJXL \r\n\x87\n"),
    MAGIC(FORMAT_JP2, 0, "\0\0\0\x0CjP  \r\n\x87\n"),
    MAGIC(FORMAT_JP2, 0, "\xFF\x4F\xFF\x51"), /* bare codestream */
    MAGIC(FORMAT_NPY, 0, "\x93NUMPY"),
    MAGIC(FORMAT_ZIP, 0, "PK\3\4"),
    MAGIC(FORMAT_ZIP, 0, "PK\5\6"), /* an empty one */
    MAGIC(FORMAT_GZIP, 0, "\x1F\x8B\x08"),
    MAGIC(FORMAT_ZSTD, 0, "\x28\xB5\x2F\xFD"),
    MAGIC(FORMAT_XZ, 0, "\xFD\x37zXZ\0"),
    MAGIC(FORMAT_PS, 0, "\xC5\xD0\xD3\xC6"), /* EPS with a preview */
    MAGIC(FORMAT_LFS_POINTER, 0, "version https://git-lfs.github.com/spec/"),
    MAGIC(FORMAT_HDF5, 0, "\x89HDF\r\n\x1A\n"),
    MAGIC(FORMAT_HDF5, 512, "\x89HDF\r\n\x1A\n"), /* behind a user block, as MATLAB 7.3 writes */
    MAGIC(FORMAT_PARQUET, 0, "PAR1"),
    MAGIC(FORMAT_VIDEO, 0, "\x1A\x45\xDF\xA3"), /* Matroska, WebM */
    MAGIC(FORMAT_VIDEO, 0, "\0\0\1\xBA"),       /* MPEG program stream */
    MAGIC(FORMAT_VIDEO, 0, "\0\0\1\xB3"),       /* MPEG video */
    MAGIC(FORMAT_VIDEO, 0, "FLV\1"),
    MAGIC(FORMAT_VIDEO, 0, "\x30\x26\xB2\x75\x8E\x66\xCF\x11"), /* ASF: WMV, WMA */
    MAGIC(FORMAT_AUDIO, 0, "fLaC"),
    MAGIC(FORMAT_AUDIO, 0, "OggS"),
    MAGIC(FORMAT_PSD, 0, "8BPS"),
    MAGIC(FORMAT_DICOM, 128, "DICM"),
    MAGIC(FORMAT_TAR, 257, "ustar"),
};

/* ---- formats with a little structure ---- */

/* ISO base media: the brands say what is inside. */
static enum image_format sniff_ftyp(const uint8_t *data, size_t n)
{
    static const char heif[][5] = {"heic", "heix", "heim", "heis", "hevc", "hevx",
                                   "hevm", "hevs", "mif1", "msf1", "mif2", "miaf"};
    if (!HAS(4, "ftyp") || n < 12)
        return HAS(4, "moov") || HAS(4, "mdat") ? FORMAT_VIDEO : FORMAT_UNKNOWN;
    if (HAS(8, "avif") || HAS(8, "avis"))
        return FORMAT_AVIF;
    size_t end = get_be32(data);
    if (end > n)
        end = n;
    bool is_heif = false;
    for (size_t i = 0; i < sizeof heif / sizeof heif[0]; i++)
        is_heif |= has(data, n, 8, heif[i], 4);
    if (is_heif) { /* the general brands mif1 and msf1 are AVIF when that is among the compatible
                      ones */
        for (size_t at = 16; (HAS(8, "mi") || HAS(8, "msf1")) && at + 4 <= end; at += 4)
            if (HAS(at, "avif") || HAS(at, "avis"))
                return FORMAT_AVIF;
        return FORMAT_HEIF;
    }
    if (HAS(8, "jp2 ") || HAS(8, "jpx "))
        return FORMAT_JP2;
    if (HAS(8, "M4A ") || HAS(8, "M4B ") || HAS(8, "F4A "))
        return FORMAT_AUDIO;
    if (HAS(8, "crx ")) /* a Canon raw picture: neither video nor readable here */
        return FORMAT_UNKNOWN;
    return FORMAT_VIDEO;
}

static enum image_format sniff_riff(const uint8_t *data, size_t n)
{
    if (HAS(0, "FORM") && (HAS(8, "AIFF") || HAS(8, "AIFC")))
        return FORMAT_AUDIO;
    if (!HAS(0, "RIFF"))
        return FORMAT_UNKNOWN;
    if (HAS(8, "WEBP"))
        return FORMAT_WEBP;
    if (HAS(8, "AVI "))
        return FORMAT_VIDEO;
    return HAS(8, "WAVE") ? FORMAT_AUDIO : FORMAT_UNKNOWN;
}

static bool is_mpeg_ts(const uint8_t *data, size_t n)
{
    enum { PACKET_BYTES = 188 };
    return n > 2 * PACKET_BYTES && data[0] == 0x47 && data[PACKET_BYTES] == 0x47 &&
           data[2 * PACKET_BYTES] == 0x47;
}

/* An ID3 tag of version 2.2 to 2.4, or an MPEG layer III frame header: sync, no reserved or free
 * bit rate, no reserved sampling rate. */
static bool is_mp3(const uint8_t *data, size_t n)
{
    if (HAS(0, "ID3") && n >= 4 && data[3] >= 2 && data[3] <= 4)
        return true;
    return n >= 4 && data[0] == 0xFF && (data[1] & 0xE6) == 0xE2 && (data[1] & 0x18) != 0x08 &&
           (data[2] >> 4) != 0 && (data[2] >> 4) != 15 && (data[2] & 0x0C) != 0x0C;
}

static bool is_nifti(const uint8_t *data, size_t n)
{
    if (HAS(4, "n+2\0\r\n\x1A\n") || HAS(4, "ni2\0\r\n\x1A\n"))
        return get_le32(data) == 540 || get_be32(data) == 540;
    return (HAS(344, "n+1") || HAS(344, "ni1")) && (get_le32(data) == 348 || get_be32(data) == 348);
}

/* "BM" begins many a text: the header size must be one that exists and the pixels lie behind it. */
static bool is_bmp(const uint8_t *data, size_t n)
{
    if (!HAS(0, "BM") || n < 26)
        return false;
    uint32_t pixels_at = get_le32(data + 10), header = get_le32(data + 14);
    return (header == 12 || (header >= 16 && header <= 124)) && pixels_at >= 14 + 12;
}

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* P1..P6, white space and comments, then the width. */
static bool is_pnm(const uint8_t *data, size_t n)
{
    if (n < 3 || data[0] != 'P' || data[1] < '1' || data[1] > '6')
        return false;
    size_t at = 2;
    while (at < n && (is_space(data[at]) || data[at] == '#')) {
        if (data[at] == '#') {
            const uint8_t *eol = memchr(data + at, '\n', n - at);
            if (eol == NULL)
                return n >= SNIFF_BYTES; /* a comment longer than what we see */
            at = (size_t)(eol - data);
        }
        at++;
    }
    return at > 2 && at < n && data[at] >= '0' && data[at] <= '9';
}

/* A tar from before POSIX has no magic, but its header has a checksum. */
static bool is_old_tar(const uint8_t *data, size_t n)
{
    enum { BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8 };
    if (n < BLOCK || data[0] == 0)
        return false;
    uint32_t want = 0, sum = 0;
    size_t at = SUM_AT, digits = 0;
    while (at < SUM_AT + SUM_BYTES && data[at] == ' ')
        at++;
    for (; at < SUM_AT + SUM_BYTES && data[at] >= '0' && data[at] <= '7'; at++, digits++)
        want = want * 8 + (data[at] - '0');
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_BYTES ? ' ' : data[i];
    return digits > 0 && sum == want;
}

/* ---- text ---- */

/* What is left to look at. */
struct text {
    const char *p;
    size_t n;
};

static void text_skip(struct text *t, size_t n)
{
    t->p += n;
    t->n -= n;
}

/* Whether t begins with word, in any case; word is lower case. */
static bool text_is(struct text t, const char *word)
{
    for (; *word != 0; word++, text_skip(&t, 1)) {
        if (t.n == 0)
            return false;
        char c = *t.p;
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != *word)
            return false;
    }
    return true;
}

static void text_skip_space(struct text *t)
{
    while (t->n > 0 && is_space((uint8_t)*t->p))
        text_skip(t, 1);
}

/* Skips to behind the next `end`, or to the end of the text. */
static void text_skip_past(struct text *t, const char *end)
{
    size_t n = strlen(end);
    const char *at = memmem(t->p, t->n, end, n);
    text_skip(t, at != NULL ? (size_t)(at - t->p) + n : t->n);
}

/* A tag's name ends behind the word. */
static bool text_is_tag(struct text t, const char *word)
{
    size_t n = strlen(word);
    return text_is(t, word) &&
           (t.n == n || is_space((uint8_t)t.p[n]) || t.p[n] == '>' || t.p[n] == '/');
}

/* "<svg" or "<prefix:svg" */
static bool is_svg_root(struct text t)
{
    if (text_is_tag(t, "<svg"))
        return true;
    size_t i = 1;
    while (i < t.n && i < 64 && t.p[i] != ':' && t.p[i] != '>' && !is_space((uint8_t)t.p[i]))
        i++;
    if (i >= t.n || t.p[i] != ':')
        return false;
    text_skip(&t, i + 1);
    return text_is_tag(t, "svg");
}

/* A document type with its internal subset, which may hold '>' of its own. */
static void skip_doctype(struct text *t)
{
    int depth = 0;
    while (t->n > 0) {
        char c = *t->p;
        text_skip(t, 1);
        depth += (c == '[') - (c == ']');
        if (c == '>' && depth <= 0)
            return;
    }
}

/* The root element decides, whatever stands before it. */
static enum image_format sniff_markup(struct text t)
{
    static const char *const html[] = {"<html",   "<head",  "<body", "<title", "<script",
                                       "<meta",   "<style", "<link", "<div",   "<table",
                                       "<center", "<h1",    "<p",    "<br",    "<a"};
    while (t.n > 0) {
        text_skip_space(&t);
        if (text_is(t, "<?")) {
            text_skip_past(&t, "?>");
        } else if (text_is(t, "<!--")) {
            text_skip(&t, 4);
            text_skip_past(&t, "-->");
        } else if (text_is(t, "<!doctype")) {
            text_skip(&t, strlen("<!doctype"));
            text_skip_space(&t);
            if (text_is(t, "html"))
                return FORMAT_HTML;
            if (text_is(t, "svg"))
                return FORMAT_SVG;
            skip_doctype(&t);
        } else {
            break;
        }
    }
    if (is_svg_root(t))
        return FORMAT_SVG;
    for (size_t i = 0; i < sizeof html / sizeof html[0]; i++)
        if (text_is_tag(t, html[i]))
            return FORMAT_HTML;
    return FORMAT_UNKNOWN;
}

/* UTF-8 without control characters; the last character may be cut where the sniffed bytes end. */
static bool is_text(const uint8_t *data, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint8_t c = data[i];
        if (c < 0x80) {
            if (c == 0x7F || (c < ' ' && !is_space(c) && c != 0x1B))
                return false;
            i++;
            continue;
        }
        size_t more = c >= 0xC2 && c <= 0xDF   ? 1
                      : c >= 0xE0 && c <= 0xEF ? 2
                      : c >= 0xF0 && c <= 0xF4 ? 3
                                               : 0;
        if (more == 0)
            return false;
        for (i++; more > 0 && i < n; more--, i++)
            if ((data[i] & 0xC0) != 0x80)
                return false;
        if (more > 0)
            return n >= SNIFF_BYTES;
    }
    return n > 0;
}

static enum image_format sniff_text(const uint8_t *data, size_t n)
{
    struct text t = {(const char *)data, n};
    if (HAS(0, "\xEF\xBB\xBF"))
        text_skip(&t, 3);
    text_skip_space(&t);
    if (text_is(t, "%pdf-"))
        return FORMAT_PDF;
    if (text_is(t, "%!ps"))
        return FORMAT_PS;
    if (text_is(t, "push graphic-context"))
        return FORMAT_MVG;
    enum image_format f = t.n > 0 && *t.p == '<' ? sniff_markup(t) : FORMAT_UNKNOWN;
    if (f != FORMAT_UNKNOWN)
        return f;
    return is_text(data, n) ? FORMAT_TEXT : FORMAT_UNKNOWN;
}

/* ---- the answer ---- */

enum image_format sniff(const uint8_t *data, size_t n)
{
    if (n > SNIFF_BYTES)
        n = SNIFF_BYTES;
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (has(data, n, magics[i].at, magics[i].bytes, magics[i].n_bytes))
            return (enum image_format)magics[i].format;
    if (n >= 4 && (get_le32(data) & 0xFFFFFFF0u) == 0x184D2A50u)
        return FORMAT_ZSTD; /* begins with a skippable frame */
    enum image_format f = sniff_riff(data, n);
    if (f == FORMAT_UNKNOWN)
        f = sniff_ftyp(data, n);
    if (f != FORMAT_UNKNOWN)
        return f;
    if (is_nifti(data, n))
        return FORMAT_NIFTI;
    if (is_old_tar(data, n))
        return FORMAT_TAR;
    if (is_bmp(data, n))
        return FORMAT_BMP;
    if (is_pnm(data, n))
        return FORMAT_PNM;
    if (is_mpeg_ts(data, n))
        return FORMAT_VIDEO;
    if (is_mp3(data, n))
        return FORMAT_AUDIO;
    return sniff_text(data, n);
}

/* What each format is called, and what to do about those that never become an image. */
struct format_facts {
    const char *name;
    enum slimset_reject reject; /* NONE: some decoder here may read it */
    const char *advice;
};

static const struct format_facts facts[FORMAT_COUNT] = {
    [FORMAT_UNKNOWN] = {"unknown", SLIMSET_REJECT_UNKNOWN_FORMAT, "no image format known here"},
    [FORMAT_JPEG] = {.name = "jpeg"},
    [FORMAT_PNG] = {.name = "png"},
    [FORMAT_TIFF] = {.name = "tiff"},
    [FORMAT_WEBP] = {.name = "webp"},
    [FORMAT_GIF] = {.name = "gif"},
    [FORMAT_BMP] = {.name = "bmp"},
    [FORMAT_PNM] = {.name = "pnm"},
    [FORMAT_HEIF] = {.name = "heif"},
    [FORMAT_AVIF] = {.name = "avif"},
    [FORMAT_JXL] = {.name = "jxl"},
    [FORMAT_JP2] = {.name = "jp2"},
    [FORMAT_NPY] = {.name = "npy"},
    [FORMAT_NPZ] = {.name = "npz"},
    [FORMAT_ZIP] = {.name = "zip"},
    [FORMAT_TAR] = {.name = "tar"},
    [FORMAT_GZIP] = {.name = "gzip"},
    [FORMAT_ZSTD] = {.name = "zstd"},
    [FORMAT_XZ] = {.name = "xz"},
    [FORMAT_SVG] = {"svg", SLIMSET_REJECT_NOT_ALLOWED,
                    "an SVG: never rendered here, export it as PNG at the size you need"},
    [FORMAT_PDF] = {"pdf", SLIMSET_REJECT_NOT_ALLOWED,
                    "a PDF: never rendered here, export its pages as PNG (pdftoppm -png)"},
    [FORMAT_PS] = {"ps", SLIMSET_REJECT_NOT_ALLOWED,
                   "PostScript: never rendered here, export it as PNG first"},
    [FORMAT_MVG] = {"mvg", SLIMSET_REJECT_NOT_ALLOWED,
                    "an MVG script: a drawing program, never run here"},
    [FORMAT_HTML] =
        {"html", SLIMSET_REJECT_HTML,
         "an HTML page, probably an error page of a web server: download the file again"},
    [FORMAT_LFS_POINTER] =
        {"lfs-pointer", SLIMSET_REJECT_LFS_POINTER,
         "a Git LFS pointer instead of the file: run `git lfs pull` in the source"},
    [FORMAT_TEXT] = {"text", SLIMSET_REJECT_UNKNOWN_FORMAT,
                     "plain text, not an image: look at it, it may be a server's message"},
    [FORMAT_DICOM] =
        {"dicom", SLIMSET_REJECT_UNSUPPORTED,
         "DICOM: convert with dcm2niix or pydicom first (16-bit PNG or NPY keeps the values)"},
    [FORMAT_NIFTI] =
        {"nifti", SLIMSET_REJECT_UNSUPPORTED,
         "NIfTI: save the volume or its slices as NPY or 16-bit PNG with nibabel first"},
    [FORMAT_HDF5] = {"hdf5", SLIMSET_REJECT_UNSUPPORTED,
                     "HDF5: write its arrays as NPY files with h5py first"},
    [FORMAT_PARQUET] = {"parquet", SLIMSET_REJECT_UNSUPPORTED,
                        "Parquet: write its image column as files with pyarrow or datasets first"},
    [FORMAT_VIDEO] = {"video", SLIMSET_REJECT_UNSUPPORTED,
                      "a video: extract the frames with ffmpeg first (ffmpeg -i in.mp4 %06d.png)"},
    [FORMAT_AUDIO] =
        {"audio", SLIMSET_REJECT_UNSUPPORTED,
         "audio: only images and arrays are converted, pack it as a file that is kept"},
    [FORMAT_PSD] = {"psd", SLIMSET_REJECT_UNSUPPORTED,
                    "a Photoshop file: export it as PNG or TIFF first"},
    [FORMAT_NPY_ZST] = {.name = "npy-zst"},
    [FORMAT_NPY_BLOSC] = {.name = "npy-blosc"},
};

const char *sniff_format_name(enum image_format f)
{
    return (unsigned)f < FORMAT_COUNT ? facts[f].name : facts[FORMAT_UNKNOWN].name;
}

enum slimset_status sniff_refuse(enum image_format f, size_t n, struct slimset_error *err)
{
    if (n == 0)
        return err_bad(err, SLIMSET_REJECT_EMPTY, "zero bytes");
    const struct format_facts *what = &facts[(unsigned)f < FORMAT_COUNT ? f : FORMAT_UNKNOWN];
    if (what->reject == SLIMSET_REJECT_NONE)
        return SLIMSET_OK;
    return err_bad(err, what->reject, "%s", what->advice);
}
