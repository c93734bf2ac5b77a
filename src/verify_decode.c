/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_decode.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "npy.h"
#include "pool.h"

struct verify_decoder {
    struct slimset_recipe recipe;
    struct pool *pool;
    uint64_t ticket;
};

struct verify_decoder *verify_decoder_open(unsigned jobs, struct slimset_error *err)
{
    struct verify_decoder *d = calloc(1, sizeof *d);
    if (d == NULL) {
        err_nomem(err, sizeof *d);
        return NULL;
    }
    slimset_recipe_init(&d->recipe);
    d->recipe.max_pixels = UINT64_MAX; /* it was packed under a limit of its own */
    struct pool_settings settings = {.recipe = &d->recipe, .jobs = jobs, .spill_dir = -1};
    if (pool_open(&settings, &d->pool, err) != SLIMSET_OK) {
        free(d);
        return NULL;
    }
    return d;
}

void verify_decoder_close(struct verify_decoder *d)
{
    if (d == NULL)
        return;
    pool_close(d->pool);
    free(d);
}

/* One request and its answer; the answer is the caller's to free. */
static enum slimset_status ask(struct verify_decoder *d, const struct item_request *req, int fd, struct item_answer **answer,
                               struct slimset_error *err)
{
    struct pool_answer a;
    uint64_t culprit;
    bool got = false;
    enum slimset_status st = pool_submit(d->pool, req, &fd, err);
    while (st == SLIMSET_OK && !got)
        st = pool_next(d->pool, 1000, &a, &got, &culprit, err);
    if (st != SLIMSET_OK)
        return st;
    if (a.answer->status == SLIMSET_OK) {
        *answer = a.answer;
        return SLIMSET_OK;
    }
    st = err_bad(err, a.answer->reject, "%.*s", (int)a.answer->text_bytes, item_text(a.answer));
    free(a.answer);
    return st;
}

enum slimset_status verify_decode_array(struct verify_decoder *d, int fd, uint64_t offset, uint64_t n, uint8_t format, char **text,
                                        struct slimset_error *err)
{
    struct item_request req = {.ticket = ++d->ticket, .op = ITEM_CHECK, .n_inputs = 1, .n_fds = 1};
    struct item_answer *a = NULL;
    uint8_t codec = format == FORMAT_NPY_ZST ? SLIMSET_CODEC_NPY_ZST : format == FORMAT_NPY_BLOSC ? SLIMSET_CODEC_NPY_BLOSC : SLIMSET_CODEC_NPY;
    req.input[0] = (struct item_input){.offset = offset, .packed_bytes = n, .bytes = n, .role = SLIMSET_ROLE_ARRAY, .array = {.codec = codec}};
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return err_os(err, "handing a field to a worker");
    enum slimset_status st = ask(d, &req, copy, &a, err);
    if (st != SLIMSET_OK)
        return st;
    *text = strndup(item_text(a), item_fields(a)->array_bytes);
    free(a);
    return *text != NULL ? SLIMSET_OK : err_nomem(err, NPY_TEXT_MAX);
}

enum slimset_status verify_decode_field(struct verify_decoder *d, const uint8_t *data, size_t n, uint8_t format,
                                        uint32_t *w, uint32_t *h, struct slimset_error *err)
{
    struct item_request req = {.ticket = ++d->ticket, .op = ITEM_CHECK, .n_inputs = 1, .n_fds = 1};
    struct item_answer *a = NULL;
    (void)format;
    req.input[0] = (struct item_input){.packed_bytes = n, .bytes = n, .role = SLIMSET_ROLE_IMAGE};
    int fd = memfd_create("slimset-verify", MFD_CLOEXEC); /* workers take descriptors, not bytes */
    if (fd < 0)
        return err_os(err, "handing a field to a worker");
    enum slimset_status st = io_pwrite(fd, data, n, 0, "a field for a worker", err);
    if (st != SLIMSET_OK) {
        close(fd);
        return st;
    }
    st = ask(d, &req, fd, &a, err);
    if (st != SLIMSET_OK)
        return st;
    *w = item_fields(a)->w;
    *h = item_fields(a)->h;
    free(a);
    return SLIMSET_OK;
}
