/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "input.h"
#include "recipe.h"
#include "sniff.h"

enum { KEEP_BYTES = 64 << 20, BLOB_BYTES_MAX = 1 << 30 };

struct converter *converter_new(const struct slimset_recipe *recipe, bool slow)
{
    struct converter *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->recipe = c->settings[0] = *recipe;
    for (size_t i = 0; i < recipe->n_settings; i++)
        c->settings[1 + i] = recipe->settings[i];
    struct image_limits limits = image_limits_default;
    limits.max_pixels = recipe->max_pixels;
    c->decoder = decoder_new(&limits, slow);
    c->encoder = encoder_new(slow);
    c->resampler = resampler_new();
    c->arrays = array_item_new(&c->recipe);
    if (c->decoder == NULL || c->encoder == NULL || c->resampler == NULL || c->arrays == NULL) {
        converter_free(c);
        return NULL;
    }
    return c;
}

void converter_free(struct converter *c)
{
    if (c == NULL)
        return;
    decoder_free(c->decoder);
    encoder_free(c->encoder);
    resampler_free(c->resampler);
    array_item_free(c->arrays);
    image_fini(&c->decoded);
    image_fini(&c->scratch);
    image_fini(&c->sized);
    buf_fini(&c->packed);
    buf_fini(&c->in);
    buf_fini(&c->probe);
    buf_fini(&c->values);
    buf_fini(&c->fields);
    buf_fini(&c->text);
    free(c);
}

/* --- one sample ---------------------------------------------------------------------------------------- */

static enum slimset_status load(struct converter *c, const struct item_request *req, uint32_t i, const int *fds,
                                struct buf *out, struct slimset_error *err)
{
    return input_read(&req->input[i], fds[req->input[i].fd_index], &c->packed, out, err);
}

/* The upright size of the sample's first image, which its masks must have. */
static enum slimset_status image_size(struct converter *c, const struct item_request *req, const int *fds,
                                      uint32_t *up_w, uint32_t *up_h, uint32_t *failed, struct slimset_error *err)
{
    bool labels = false;
    uint32_t image = req->n_inputs;
    for (uint32_t i = req->n_inputs; i-- > 0;) {
        labels |= convert_is_labels(req->input[i].role);
        if (req->input[i].role == SLIMSET_ROLE_IMAGE)
            image = i;
    }
    if (!labels || image == req->n_inputs)
        return SLIMSET_OK;
    struct image_info info = {0};
    *failed = image;
    c->in.len = 0;
    enum slimset_status st = load(c, req, image, fds, &c->in, err);
    if (st == SLIMSET_OK)
        st = decode_header(c->decoder, c->in.data, c->in.len, &info, err);
    *up_w = info.orientation >= 5 ? info.h : info.w;
    *up_h = info.orientation >= 5 ? info.w : info.h;
    return st;
}

/* A text that travels beside images: where these move, a run is not to leave its boxes behind unasked. Text in a legacy 8-bit
 * encoding has no format of its own. */
static bool boxes_matter(const struct converter *c, const struct item_field *f)
{
    return c->settings[0].boxes == SLIMSET_BOXES_REFUSE &&
           (f->format == FORMAT_TEXT || f->format == FORMAT_UNKNOWN);
}

/* Takes the settings of input i. A mask has its image's size unless its own say otherwise. True: they do. */
static bool take_settings(struct converter *c, const struct item_request *req, uint32_t i)
{
    c->recipe = c->settings[req->input[i].settings];
    if (!convert_is_labels(req->input[i].role) || c->recipe.own_size)
        return c->recipe.own_size;
    for (uint32_t k = 0; k < req->n_inputs; k++)
        if (req->input[k].role == SLIMSET_ROLE_IMAGE) {
            const struct slimset_recipe *image = &c->settings[req->input[k].settings];
            c->recipe.resize = image->resize;
            c->recipe.resize_a = image->resize_a;
            c->recipe.resize_b = image->resize_b;
            c->recipe.resize_pixels = image->resize_pixels;
            c->recipe.resize_factor = image->resize_factor;
            c->recipe.upscale = image->upscale;
            break;
        }
    return false;
}

static enum slimset_status one_input(struct converter *c, const struct item_request *req, uint32_t i, const int *fds,
                                     uint32_t image_w, uint32_t image_h, struct item_field *f, struct buf *blob,
                                     struct slimset_error *err)
{
    const struct item_input *in = &req->input[i];
    bool copies = in->role == SLIMSET_ROLE_COPY && req->op == ITEM_CONVERT;
    struct buf *into = copies ? blob : &c->in;
    size_t start = copies ? blob->len : 0;
    into->len = start;
    enum slimset_status st = load(c, req, i, fds, into, err);
    if (st != SLIMSET_OK)
        return st;
    const uint8_t *data = into->data + start;
    size_t n = into->len - start;
    f->in_bytes = n;
    f->in_hash = hash_bytes(data, n);
    f->frames = 1;
    f->format = f->in_format = (uint8_t)sniff(data, n);
    if (in->role == SLIMSET_ROLE_COPY) {
        if (req->op == ITEM_PROBE) {
            f->boxes = convert_box_kind(data, n);
            f->probe_bytes = n;
        } else if (req->op == ITEM_CONVERT) {
            f->payload_bytes = n;
            if (boxes_matter(c, f))
                f->boxes = convert_box_kind(data, n);
        }
        return st;
    }
    struct work w = {.in = in, .field = f};
    bool own_size = take_settings(c, req, i);
    if (req->op == ITEM_CHECK)
        return convert_check(c, data, n, &w, err);
    if (req->op == ITEM_PROBE)
        return convert_probe(c, data, n, &w, err);
    st = convert_image(c, data, n, &w, blob, err);
    if (st == SLIMSET_OK && w.labels && !own_size && image_w != 0 && (w.up_w != image_w || w.up_h != image_h))
        st = err_bad(err, SLIMSET_REJECT_PAIR, "%u x %u pixels, but the image of its sample has %u x %u upright",
                     w.up_w, w.up_h, image_w, image_h);
    return st;
}

/* Which of the ways an input takes: arrays and what is too large for memory go by their own. */
static enum slimset_status take_input(struct converter *c, const struct item_request *req, uint32_t i, const int *fds,
                                      uint32_t image_w, uint32_t image_h, struct item_out *out, struct slimset_error *err)
{
    const struct item_input *in = &req->input[i];
    int fd = fds[in->fd_index];
    if (req->op == ITEM_HASH || (in->role == SLIMSET_ROLE_COPY && out->spill_fd >= 0 && in->bytes > ITEM_SPILL_BYTES))
        return array_item_copy(c->arrays, (enum item_op)req->op, in, i, fd, out, err);
    if (req->op == ITEM_CHECK && in->role == SLIMSET_ROLE_ARRAY)
        return array_item_check(c->arrays, in, i, fd, out, err);
    take_settings(c, req, i);
    if (req->op != ITEM_CHECK && array_item_is(c->arrays, in, fd))
        return array_item_convert(c->arrays, (enum item_op)req->op, in, i, fd, out, err);
    struct item_field f = {.input = i};
    enum slimset_status st = one_input(c, req, i, fds, image_w, image_h, &f, out->blob, err);
    return st == SLIMSET_OK ? buf_append(out->fields, &f, sizeof f, err) : st;
}

/* Fields and their texts to the front of the blob. Room was left for one field an input and a little text; payloads move where that is
 * not enough. */
static enum slimset_status put_front(struct converter *c, struct buf *blob, size_t head, uint32_t *text_bytes,
                                     struct slimset_error *err)
{
    size_t need = sizeof(struct item_answer) + c->fields.len + c->text.len, payload = blob->len - head;
    if (need > head) {
        enum slimset_status st = buf_reserve(blob, need - head, err);
        if (st != SLIMSET_OK)
            return st;
        memmove(blob->data + need, blob->data + head, payload);
        blob->len += need - head;
        head = need;
    }
    uint8_t *to = blob->data + sizeof(struct item_answer);
    if (c->fields.len > 0)
        memcpy(to, c->fields.data, c->fields.len);
    if (c->text.len > 0)
        memcpy(to + c->fields.len, c->text.data, c->text.len);
    memset(to + c->fields.len + c->text.len, 0, head - need);
    *text_bytes = (uint32_t)(head - sizeof(struct item_answer) - c->fields.len);
    return SLIMSET_OK;
}

enum slimset_status convert_item(struct converter *c, const struct item_request *req, const int *fds, struct buf *blob,
                                 struct slimset_error *err)
{
    enum { TEXT_ROOM = 128 };
    struct slimset_error fault = {0};
    uint32_t failed = 0, image_w = 0, image_h = 0;
    bool arrays = false;
    for (uint32_t i = 0; i < req->n_inputs; i++)
        arrays |= req->input[i].role == SLIMSET_ROLE_ARRAY;
    size_t head = sizeof(struct item_answer) + req->n_inputs * sizeof(struct item_field) + (arrays ? TEXT_ROOM : 0);
    struct item_out out = {.blob = blob, .fields = &c->fields, .text = &c->text,
                           .spill_fd = req->has_spill ? fds[req->n_fds - 1] : -1,
                           .spill_max = (uint64_t)req->spill_mib << 20};
    blob->max = BLOB_BYTES_MAX;
    buf_reset(blob, KEEP_BYTES);
    buf_reset(&c->in, KEEP_BYTES);
    c->fields.len = c->text.len = 0;
    c->fields.max = ITEM_FIELDS_MAX * sizeof(struct item_field);
    c->text.max = ITEM_TEXT_MAX - 1;
    enum slimset_status st = buf_reserve(blob, head, err);
    if (st != SLIMSET_OK)
        return st;
    blob->len = head;
    st = req->op == ITEM_CONVERT ? image_size(c, req, fds, &image_w, &image_h, &failed, &fault) : SLIMSET_OK;
    for (uint32_t i = 0; st == SLIMSET_OK && i < req->n_inputs; i++) {
        failed = i;
        st = take_input(c, req, i, fds, image_w, image_h, &out, &fault);
    }
    struct item_answer a = {.ticket = req->ticket, .status = st, .n_fields = (uint32_t)(c->fields.len / sizeof(struct item_field))};
    if (st == SLIMSET_OK)
        st = put_front(c, blob, head, &a.text_bytes, &fault);
    if (st != SLIMSET_OK) {
        a.status = st;
        a.reject = st == SLIMSET_BAD_INPUT ? fault.reject : SLIMSET_REJECT_NONE;
        a.os_errno = fault.os_errno;
        a.failed_input = failed;
        a.n_fields = 0;
        a.text_bytes = (uint32_t)strlen(fault.text);
        blob->len = sizeof a;
        st = buf_append(blob, fault.text, a.text_bytes, err);
        if (st != SLIMSET_OK)
            return st;
    }
    a.blob_bytes = blob->len;
    memcpy(blob->data, &a, sizeof a);
    return SLIMSET_OK;
}
