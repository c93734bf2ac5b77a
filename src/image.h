/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decoder says of a file (struct image_info) and what it decodes into (struct image).
 *
 * An image is always planar: one plane per channel, colour first, alpha last. JPEG chroma planes
 * may be smaller than the image, and a scaled JPEG decode makes all of them smaller: `per_px_x/y`
 * says how many samples of the plane cover one pixel of the image. Owner: the struct; the planes
 * live in one allocation that is reused from image to image (image_setup), so that the steady state
 * allocates nothing. One thread at a time.
 */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    IMAGE_PLANES_MAX = 5,     /* CMYK + alpha */
    IMAGE_STRIDE_ALIGN = 64,  /* bytes; rows start aligned, stride is a multiple of it */
    IMAGE_ROW_SLACK = 64      /* readable (not meaningful) bytes behind each row's samples, for SIMD */
};

/* Formats by magic bytes. Numbers are part of the index format: only ever append. */
enum image_format {
    FORMAT_UNKNOWN = 0,
    FORMAT_JPEG, FORMAT_PNG, FORMAT_TIFF, FORMAT_WEBP, FORMAT_GIF, FORMAT_BMP, FORMAT_PNM,
    FORMAT_HEIF, /* HEIC */ FORMAT_AVIF, FORMAT_JXL, FORMAT_JP2,
    FORMAT_NPY, FORMAT_NPZ, FORMAT_ZIP, FORMAT_TAR, FORMAT_GZIP, FORMAT_ZSTD, FORMAT_XZ,
    FORMAT_SVG, FORMAT_PDF, FORMAT_PS, FORMAT_MVG, FORMAT_HTML, FORMAT_LFS_POINTER, FORMAT_TEXT,
    FORMAT_DICOM, FORMAT_NIFTI, FORMAT_HDF5, FORMAT_PARQUET, FORMAT_VIDEO, FORMAT_AUDIO, FORMAT_PSD,
    FORMAT_NPY_ZST, /* a zstd frame with a .npy inside */ FORMAT_NPY_BLOSC,
    FORMAT_COUNT
};

enum image_colour {
    IMAGE_GRAY = 1, /* 1 plane */
    IMAGE_YCC,      /* 3 planes, JPEG full-range BT.601; only 8 bits; chroma may be subsampled */
    IMAGE_RGB,      /* 3 planes */
    IMAGE_CMYK,     /* 4 planes, 255 = no ink (as Adobe stores it, and as Pillow hands it out inverted) */
    IMAGE_INDEX     /* 1 plane of palette indices, palette in image->palette */
};

enum { IMAGE_ICC_BYTES_MAX = 4 << 20 /* a colour profile: the largest in use have 3 MB. Larger ones are ignored, NOTE_PROFILE_BAD */ };

/* What was seen or done on the way; a set of bits, counted in the report, stored per field in the
 * index (part of its format: only ever append). The stage that sets a bit is named. */
enum image_note {
    NOTE_REENCODED      = 1u << 0,  /* convert: decoded and encoded again */
    NOTE_RESIZED        = 1u << 1,  /* convert: pixel size changed */
    NOTE_ROTATED        = 1u << 2,  /* convert: EXIF orientation baked in */
    NOTE_COPIED         = 1u << 3,  /* convert: image bytes passed through (nothing to change) */
    NOTE_NOT_SMALLER    = 1u << 4,  /* convert: --reencode all, and the result is not smaller than the source */
    NOTE_STRIPPED       = 1u << 5,  /* convert: metadata segments removed from passed-through bytes */
    NOTE_ALPHA_DROPPED  = 1u << 6,  /* convert: alpha was opaque everywhere */
    NOTE_FLATTENED      = 1u << 7,  /* convert: real alpha composited on the background */
    NOTE_PROFILE_DROPPED = 1u << 8, /* convert: numbers kept, ICC profile dropped */
    NOTE_PROFILE_USED   = 1u << 9,  /* convert: converted to sRGB through its profile */
    NOTE_CMYK           = 1u << 10, /* convert: CMYK/YCCK converted by the plain formula */
    NOTE_KEPT_16BIT     = 1u << 11, /* convert: 16 bits kept */
    NOTE_SCALED_8BIT    = 1u << 12, /* convert: 16-bit values scaled to 8 */
    NOTE_FIRST_FRAME    = 1u << 13, /* decoder: first of several frames or pages */
    NOTE_WARNING        = 1u << 14, /* decoder: accepted with a benign warning */
    NOTE_TAIL_BYTES     = 1u << 15, /* decoder: bytes after the end of the image */
    NOTE_PROGRESSIVE    = 1u << 16, /* convert: a progressive JPEG was passed through (slow to read) */
    NOTE_EXPANDED       = 1u << 17, /* decoder: palette or 1/2/4-bit expanded to 8 */
    NOTE_NEAREST        = 1u << 18, /* convert: resized by nearest (mask, depth) */
    NOTE_CLASSES_LOST   = 1u << 19, /* convert: mask values that vanished by downsizing */
    NOTE_SLOW_PATH      = 1u << 20, /* convert: decoded by libvips */
    NOTE_CHANNELS       = 1u << 21, /* convert: channel count changed by --channels */
    NOTE_GAMMA          = 1u << 22, /* decoder: a gamma other than 1/2.2 (PNG), or a transfer curve such as PQ (PNG, HEIF), ignored */
    NOTE_PROFILE_BAD    = 1u << 23, /* decoder/convert: profile corrupt or of the wrong kind, ignored */
    NOTE_GENERATED      = 1u << 24, /* plan: the field was made by us (cls) */
    NOTE_C_ORDER        = 1u << 25, /* array: was in Fortran order, is in C order */
    NOTE_NARROWED       = 1u << 26, /* array: a smaller type that holds every value exactly */
    NOTE_CAST           = 1u << 27, /* array: another type, as --cast asks; values may be rounded */
    NOTE_MAJORITY       = 1u << 28, /* convert: mask resized by the most frequent value */
    NOTE_CLIPPED        = 1u << 29, /* convert: values outside of the range of --depth 8:auto or 8:LO,HI */
    NOTE_MISSED_SSIM    = 1u << 30  /* convert: --min-ssim not reached, highest quality used */
};

/* Limits checked on headers before any decoding. */
struct image_limits {
    uint64_t max_pixels;      /* default 178,956,970: Pillow's error limit */
    uint32_t max_side;        /* default 65,500: libjpeg's */
    uint32_t max_scans;       /* default 100, as upstream fuzzers use */
    uint64_t max_scan_pixels; /* default 5e9: scans x pixels */
};
extern const struct image_limits image_limits_default;

/* SLIMSET_OK, or SLIMSET_BAD_INPUT/too-many-pixels with the numbers in the text; also for w or h 0
 * (corrupt). */
enum slimset_status image_limits_check(const struct image_limits *limits, uint64_t w, uint64_t h,
                                       struct slimset_error *err);

/* From the header alone. Pointers point into the caller's file bytes. */
struct image_info {
    enum image_format format;
    uint32_t w, h;           /* pixels, as stored (before orientation) */
    uint8_t orientation;     /* 1..8; EXIF/TIFF tag 274; invalid values read as 1 */
    uint8_t channels;        /* colour channels without alpha: 1, 3, 4 (more: multi-band) */
    uint8_t bits;            /* per sample as stored: 1, 2, 4, 8, 16, 32 */
    bool is_float;
    bool alpha;              /* an alpha channel or tRNS */
    bool palette;
    bool progressive;        /* JPEG progressive, PNG interlaced */
    bool arithmetic;         /* JPEG arithmetic coding */
    enum image_colour colour;/* what a decode hands out (PNG palette: IMAGE_INDEX only when asked) */
    uint8_t h_samp[4], v_samp[4]; /* JPEG sampling factors per component */
    uint32_t frames;         /* 1, or number of frames/pages where the header tells */
    const uint8_t *icc;      /* profile inside the file if contiguous, else NULL */
    size_t icc_bytes;        /* > 0 when a profile is there, contiguous or not */
    bool lossless;           /* WebP without loss; PNG and the like do not say so */
    bool has_metadata;       /* EXIF, XMP, ICC, comments, text: what a strip would remove */
    uint32_t notes;          /* enum image_note bits a header can show */
};

struct image_plane {
    uint8_t *data;       /* samples of 1 byte (bits 8) or 2 bytes, native endian (bits 16) */
    size_t stride_bytes;
    uint32_t w, h;       /* samples */
    double per_px_x;     /* plane samples per image pixel: 1, 0.5 for 4:2:0 chroma, x 1/2.. scaled */
    double per_px_y;
};

struct image {
    uint32_t w, h;           /* pixels of the whole image at full scale, as stored */
    enum image_colour colour;
    uint8_t bits;            /* 8 or 16 */
    uint8_t n_planes;        /* with alpha */
    bool alpha;              /* the last plane is alpha, same bits, 0 = transparent */
    struct image_plane plane[IMAGE_PLANES_MAX];
    uint32_t palette_n;      /* IMAGE_INDEX: entries */
    uint8_t palette[256][4]; /* R G B A */
    struct buf store;        /* owns all plane bytes */
};

/* Lays out n_planes planes of w x h pixels at full scale (per_px 1), reusing the allocation.
 * For subsampled planes: image_setup_planes with the size of each. Contents are undefined.
 * SLIMSET_NO_MEMORY on failure. */
enum slimset_status image_setup(struct image *im, enum image_colour colour, bool alpha, uint8_t bits,
                                uint32_t w, uint32_t h, struct slimset_error *err);

/* As image_setup with n planes of sizes plane_w[i] x plane_h[i] samples; the caller sets per_px. */
enum slimset_status image_setup_planes(struct image *im, enum image_colour colour, bool alpha, uint8_t bits,
                                       uint32_t w, uint32_t h, unsigned n, const uint32_t *plane_w,
                                       const uint32_t *plane_h, struct slimset_error *err);

void image_fini(struct image *im);

/* Planes without alpha: 1, 3 or 4. */
unsigned image_colour_planes(enum image_colour colour);

#endif
