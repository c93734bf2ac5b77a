/* SPDX-License-Identifier: Apache-2.0 */
#include "item.h"

#include <string.h>

static enum slimset_status broken(struct slimset_error *err, const char *what)
{
    return err_set(err, SLIMSET_INTERNAL, "a worker answered with %s", what);
}

static bool is_array_format(uint8_t f)
{
    return f == FORMAT_NPY || f == FORMAT_NPZ || f == FORMAT_NPY_ZST || f == FORMAT_NPY_BLOSC;
}

/* An image must at least begin like its format; one that the worker made must end like it, too. p: all of it, or its first `have` bytes. */
static bool begins_right(const struct item_field *f, const uint8_t *p, size_t have)
{
    size_t n = f->payload_bytes;
    bool made = f->notes & NOTE_REENCODED, array = is_array_format(f->format);
    if (!made && !(f->notes & NOTE_COPIED) && !array)
        return true;
    if (have < 16 && have < n)
        return false;
    switch (f->format) {
    case FORMAT_JPEG:
        return n > 4 && p[0] == 0xff && p[1] == 0xd8 && (!made || have < n || (p[n - 2] == 0xff && p[n - 1] == 0xd9));
    case FORMAT_PNG:
        return n > 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
    case FORMAT_WEBP:
        return n > 12 && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0;
    case FORMAT_NPY:
        return n >= 6 && memcmp(p, "\x93NUMPY", 6) == 0;
    case FORMAT_NPY_ZST:
        return n > 8 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0;
    case FORMAT_NPY_BLOSC:
        return n >= 16 && get_le32(p + 12) == n;
    case FORMAT_NPZ:
        return n >= 2 && memcmp(p, "PK", 2) == 0;
    default:
        return !made && n > 0; /* a format that is only ever copied */
    }
}

bool item_begins_right(const struct item_field *f, const uint8_t *first, size_t n)
{
    return begins_right(f, first, n);
}

static enum slimset_status field_check(const struct item_request *req, const struct item_field *f,
                                       const uint8_t *payload, struct slimset_error *err)
{
    uint8_t role = req->input[f->input].role;
    bool array = is_array_format(f->format);
    bool image = !array && (role == SLIMSET_ROLE_IMAGE || role == SLIMSET_ROLE_MASK || role == SLIMSET_ROLE_DEPTH);
    if (f->format >= FORMAT_COUNT || f->in_format >= FORMAT_COUNT)
        return broken(err, "an unknown format");
    if (f->w > 1u << 20 || f->h > 1u << 20 || f->in_w > 1u << 20 || f->in_h > 1u << 20)
        return broken(err, "impossible dimensions");
    if (image && req->op == ITEM_CONVERT && (f->w == 0 || f->h == 0))
        return broken(err, "an image without dimensions");
    if (f->profile[sizeof f->profile - 1] != '\0')
        return broken(err, "a name without an end");
    if (f->orientation > 8 || f->quality > 100 || f->values > 65 || f->zero_permille > 1000 || f->equal_permille > 1000 ||
        f->boxes > 3 || f->ssim_e6 > 1000000)
        return broken(err, "numbers out of range");
    if (f->spilled > 1 || (f->spilled && (!req->has_spill || f->spill_at > INT64_MAX || f->payload_bytes > INT64_MAX - f->spill_at)))
        return broken(err, "a payload that is nowhere");
    if (req->op == ITEM_CONVERT && !f->spilled && !begins_right(f, payload, f->payload_bytes))
        return broken(err, "bytes that are not what it calls them");
    return SLIMSET_OK;
}

/* Every input became at least one field, in order; only inputs with arrays may have become several. */
static bool inputs_agree(const struct item_request *req, const struct item_answer *a)
{
    const struct item_field *f = item_fields(a);
    uint64_t text = 0;
    for (uint32_t i = 0; i < a->n_fields; i++) {
        uint32_t before = i == 0 ? UINT32_MAX : f[i - 1].input;
        if (f[i].input >= req->n_inputs || (f[i].input != before && f[i].input != before + 1))
            return false;
        uint8_t role = req->input[f[i].input].role;
        if (f[i].input == before && (role == SLIMSET_ROLE_IMAGE || role == SLIMSET_ROLE_COPY))
            return false;
        if (memchr(item_text(a) + text, '\0', (size_t)f[i].name_bytes + f[i].array_bytes) != NULL)
            return false;
        text += (uint64_t)f[i].name_bytes + f[i].array_bytes;
    }
    return f[a->n_fields - 1].input == req->n_inputs - 1;
}

/* The texts of all fields lie within the text. */
static bool texts_fit(const struct item_answer *a)
{
    const struct item_field *f = item_fields(a);
    uint64_t text = 0;
    for (uint32_t i = 0; i < a->n_fields; i++)
        text += (uint64_t)f[i].name_bytes + f[i].array_bytes;
    return text <= a->text_bytes;
}

enum slimset_status item_answer_check(const struct item_request *req, const uint8_t *blob, size_t n,
                                      struct slimset_error *err)
{
    const struct item_answer *a = (const struct item_answer *)(const void *)blob;
    if (n < sizeof *a || a->blob_bytes != n)
        return broken(err, "a wrong length");
    if (a->ticket != req->ticket)
        return broken(err, "another item's number");
    if ((a->status > SLIMSET_IO && a->status != SLIMSET_INTERNAL) || a->reject >= SLIMSET_REJECT_COUNT ||
        (a->status == SLIMSET_BAD_INPUT) != (a->reject != SLIMSET_REJECT_NONE))
        return broken(err, "an unknown status");
    if (a->status != SLIMSET_OK ? a->n_fields != 0 || a->failed_input >= req->n_inputs
                                : a->n_fields < req->n_inputs || a->n_fields > ITEM_FIELDS_MAX)
        return broken(err, "a wrong number of fields");
    size_t at = sizeof *a + a->n_fields * sizeof(struct item_field);
    if (at > n || a->text_bytes >= (a->status == SLIMSET_OK ? ITEM_TEXT_MAX : sizeof err->text) || at + a->text_bytes > n)
        return broken(err, "a text that does not fit");
    if (a->status == SLIMSET_OK && (!texts_fit(a) || !inputs_agree(req, a)))
        return broken(err, "fields that are not those of its inputs");
    at += a->text_bytes;
    const struct item_field *f = item_fields(a);
    for (uint32_t i = 0; i < a->n_fields; i++) {
        if (!f[i].spilled && f[i].payload_bytes > n - at)
            return broken(err, "a payload that does not fit");
        enum slimset_status st = field_check(req, &f[i], blob + at, err);
        if (st != SLIMSET_OK)
            return st;
        at += f[i].spilled ? 0 : f[i].payload_bytes;
    }
    if (at != n)
        return broken(err, "surplus bytes");
    return SLIMSET_OK;
}
