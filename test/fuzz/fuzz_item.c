/* SPDX-License-Identifier: Apache-2.0
 * One whole item, as a worker converts it: request and bytes both come from the fuzzer (the worker
 * protocol, downwards). The answer must pass the coordinator's check, twice the same. */
#include "convert.h"
#include "fuzz.h"

static void choose(struct slimset_recipe *r, const uint8_t *p)
{
    slimset_recipe_init(r);
    r->max_pixels = 1 << 18;
    r->resize = p[0] % 8;
    r->resize_a = 1 + p[1] % 64u;
    r->resize_b = 1 + p[2] % 64u;
    r->resize_pixels = 1 + 16u * p[1];
    r->resize_factor = (1 + p[2]) / 128.0;
    r->upscale = p[3] & 1;
    r->lossless = p[3] >> 1 & 1;
    r->reencode_all = p[3] >> 2 & 1;
    r->keep_metadata = p[3] >> 3 & 1;
    r->optimise = p[3] >> 4 & 1;
    r->color = p[3] >> 5 & 1;
    r->depth = p[3] >> 6 & 1;
    r->quality = 1 + p[4] % 100;
    r->subsampling = p[5] % 3u;
    r->alpha = p[5] / 3u % 3u;
    r->channels = (uint8_t)("\0\1\3"[p[5] / 9u % 3u]);
    r->png_level = 1 + p[6] % 9;
    r->output = p[6] / 9u % 6u;
    r->boxes = p[7] & 1;
}

enum { HEAD = 24 };

static uint64_t convert(struct converter *c, const struct item_request *req, int fd)
{
    struct slimset_error err = {0};
    struct buf blob = {0};
    enum slimset_status st = convert_item(c, req, &fd, &blob, &err);
    MUST(st == SLIMSET_OK);
    st = item_answer_check(req, blob.data, blob.len, &err);
    if (st != SLIMSET_OK)
        fprintf(stderr, "%s\n", err.text);
    MUST(st == SLIMSET_OK);
    const struct item_answer *a = (const struct item_answer *)(const void *)blob.data;
    if (a->status == SLIMSET_INTERNAL)
        fprintf(stderr, "internal: %.*s\n", (int)a->text_bytes, item_text(a));
    MUST(a->status == SLIMSET_OK || a->status == SLIMSET_BAD_INPUT || a->status == SLIMSET_NEED_SLOW);
    uint64_t hash = hash_bytes(blob.data, blob.len);
    buf_fini(&blob);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_recipe recipe;
    if (n < HEAD)
        return 0;
    choose(&recipe, data);
    size_t bytes = n - HEAD;
    int fd = fuzz_file(data + HEAD, bytes);
    struct item_request req = {.ticket = 3, .op = ITEM_CONVERT + data[8] % 4, .n_inputs = 1 + data[9] % 2u, .n_fds = 1};
    for (unsigned i = 0; i < req.n_inputs; i++) {
        const uint8_t *p = data + 10 + 7 * i;
        struct item_input *in = &req.input[i];
        bool odd = p[0] & 128; /* a request that does not fit its file */
        *in = (struct item_input){.offset = odd ? p[4] * 16u : 0, .packed_bytes = odd ? p[5] * 64u : bytes,
                                  .bytes = odd ? p[6] * 256u : bytes, .role = p[0] % 7,
                                  .codec = p[1] % (p[0] % 7 == SLIMSET_ROLE_ARRAY ? 8u : 5u),
                                  .deflated = p[2] & 1, .zip_local = p[2] >> 1 & 1, .has_crc = p[2] >> 2 & 1,
                                  .known_bytes = p[2] >> 3 & 1, .flags = p[3] & 3, .crc32 = p[5]};
    }
    struct converter *c = converter_new(&recipe, false);
    MUST(c != NULL);
    uint64_t first = convert(c, &req, fd); /* the second one finds used buffers */
    MUST(first == convert(c, &req, fd));
    converter_free(c);
    close(fd);
    return 0;
}
