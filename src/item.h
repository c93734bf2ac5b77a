/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that travel: one work item is one sample. The coordinator fills a request (which bytes to
 * read, what to do with each), a worker answers with one blob:
 *
 *      struct item_answer | struct item_field x n_fields | text | payload of field 0, 1, ...
 *
 * An input becomes one field, an .npz one for each of its arrays. Of a good answer the text is names and dtypes of fields. Large payloads
 * do not go through the slot: the request then brings a nameless file, the spill, and the field says where in it its payload lies.
 *
 * A request goes over a socket with the descriptors of its inputs; the blob goes through a shared-memory
 * slot. What a worker answers is hostile until item_answer_check has passed on a private copy.
 */
#ifndef ITEM_H
#define ITEM_H

#include "array_codec.h"
#include "base/buf.h"
#include "image.h"
#include "slimset/pack.h"

enum {
    ITEM_INPUTS_MAX = 200,  /* files of one sample: SCM_RIGHTS takes 253 descriptors */
    ITEM_FIELDS_MAX = 1000, /* of one sample: arrays of its .npz files included */
    ITEM_CHOICES_MAX = 16,  /* arrays of an .npz that have a codec of their own */
    ITEM_TEXT_MAX = 16 << 20,
    ITEM_SPILL_BYTES = 64 << 20, /* an input of more, or one that cannot be read in place, brings a spill */
    ITEM_SPILL_NPZ_BYTES = 8 << 20, /* the same for an .npz, which unpacks to more */
    ITEM_VERSION = 2        /* of this protocol; both ends are the same executable */
};

enum item_op {
    ITEM_CONVERT = 1, /* the sample's output */
    ITEM_PROBE,       /* item_field with statistics, no payload */
    ITEM_HASH,        /* item_field with in_hash only */
    ITEM_CHECK        /* verify --decode: decode what is there, dimensions only */
};

/* Filled by the plan and the dispatcher. */
struct item_input {
    uint64_t offset;       /* where the packed bytes (zip: the local header) start in the descriptor */
    uint64_t packed_bytes;
    uint64_t bytes;        /* unpacked; what the walk saw */
    int64_t mtime_ns;      /* plain files: as the walk saw it; 0 = do not compare */
    uint32_t crc32;
    uint8_t fd_index;      /* into the descriptors that come with the request */
    uint8_t deflated;      /* enum archive_method */
    uint8_t zip_local;
    uint8_t has_crc;
    uint8_t role;          /* enum slimset_role */
    uint8_t codec;         /* enum slimset_codec; KEEP: bytes stay */
    uint8_t flags;         /* ITEM_SHIFT_16 */
    uint8_t known_bytes;   /* 1: `bytes` must be met exactly */
    uint8_t settings;      /* 0 the recipe's own, else 1 + number in recipe->settings */
    uint8_t zero;
    uint16_t depth_lo, depth_hi; /* --depth 8:auto: the field's range of 16-bit values; both 0 not known */
    uint8_t raw;           /* an array without a header: the recipe's --raw says what it is */
    uint8_t n_choices;
    struct array_codec array; /* of arrays; level may be a word */
    struct item_choice {      /* of arrays of an .npz, by name */
        uint32_t name_hash;   /* array_name_hash */
        struct array_codec codec;
    } choice[ITEM_CHOICES_MAX];
};

enum {
    ITEM_SHIFT_16 = 1,  /* 16-bit values may become 8-bit by >> 8 */
    ITEM_PROBE_SIZE = 2 /* ITEM_PROBE: convert it as well, for probe_bytes */
};

struct item_request {
    uint64_t ticket;
    uint32_t op;
    uint32_t slot;
    uint32_t n_inputs;
    uint32_t n_fds;
    uint32_t has_spill;    /* the last descriptor is a file that the worker may write */
    uint32_t spill_mib;    /* and not more than so much in it; 0: no limit */
    struct item_input input[ITEM_INPUTS_MAX];
};

/* Filled by the worker, one or more per input, in the order of the inputs. */
struct item_field {
    uint64_t payload_bytes;
    uint64_t spill_at;    /* spilled: where in the spill the payload begins */
    uint64_t in_bytes;
    uint64_t in_hash;     /* XXH3-64 of the unpacked source bytes */
    uint32_t w, h, in_w, in_h, notes, frames;
    uint32_t classes_lost, ssim_e6; /* as in the index */
    uint32_t input;       /* of the request */
    uint32_t name_bytes;  /* in the text: of an .npz's array, without ".npy" */
    uint32_t array_bytes; /* in the text, behind the name: dtype and shape of the source array */
    uint8_t format, in_format, channels, bits, orientation, quality, in_bits, in_channels;
    uint8_t spilled;
    uint8_t zeros[3];
    uint64_t cast_inf, cast_zero, cast_nan, cast_clipped; /* --cast: values that it could not keep */
    char profile[48];     /* what the source's colour profile calls itself; zero behind the name */
    /* ITEM_PROBE only */
    uint32_t values;      /* distinct values of a one-channel image, counted up to 65; 0 not one channel */
    uint32_t min_value, max_value; /* smallest and largest sample value; of 16-bit images exact, else of the rows looked at */
    uint32_t zero_permille; /* exact zeros */
    uint32_t equal_permille; /* horizontal neighbours that are equal in all channels */
    uint8_t real_alpha;   /* alpha that is not opaque everywhere */
    uint8_t boxes;        /* text: 1 VOC XML, 2 COCO JSON, 3 labelme JSON; ITEM_CONVERT too unless --boxes keep */
    uint8_t in_lossless;  /* image_info.lossless */
    uint8_t merges;       /* of 16 bits, as the next two: struct pixels_stats has what they mean */
    uint16_t upper_permille, levels;
    uint64_t probe_bytes; /* with ITEM_PROBE_SIZE: what it would have in the codec that the request names */
    uint64_t trial[3];    /* an array's first bytes through each enum array_filter; 0 not tried */
};

struct item_answer {
    uint64_t ticket;
    uint32_t status;      /* enum slimset_status: OK, BAD_INPUT, NEED_SLOW, NO_MEMORY, IO, INTERNAL */
    uint32_t reject;
    int32_t os_errno;
    uint32_t failed_input;
    uint32_t n_fields;    /* 0 unless OK */
    uint32_t text_bytes;  /* the error's text, or names and dtypes of the fields and perhaps zeros; behind the fields */
    uint64_t blob_bytes;  /* all of it */
};

/* Checks a copied blob against the request: sizes add up, every enum is in range, dimensions within the limits, payloads begin
 * as their format must. SLIMSET_INTERNAL with what was wrong. */
enum slimset_status item_answer_check(const struct item_request *req, const uint8_t *blob, size_t n,
                                      struct slimset_error *err);

/* Do these first bytes of a spilled payload begin as its format must? What item_answer_check asks of the others. */
bool item_begins_right(const struct item_field *f, const uint8_t *first, size_t n);

static inline const struct item_field *item_fields(const struct item_answer *a)
{
    return (const struct item_field *)(const void *)(a + 1);
}
static inline const char *item_text(const struct item_answer *a)
{
    return (const char *)(item_fields(a) + a->n_fields);
}
static inline const uint8_t *item_payload(const struct item_answer *a)
{
    return (const uint8_t *)item_text(a) + a->text_bytes;
}

#endif
