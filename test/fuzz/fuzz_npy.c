/* SPDX-License-Identifier: Apache-2.0
 * Headers of .npy files, the text of arrays in the index, --raw; and stored arrays read back (.npy, zstd, c-blosc). */
#include "array_read.h"
#include "fuzz.h"
#include "npy.h"

static void read_back(const uint8_t *data, size_t n, enum image_format format)
{
    static struct array_reader *r;
    struct slimset_error err = {0};
    struct array_bytes bytes = {data, n};
    struct npy a;
    uint8_t chunk[4096];
    if (r == NULL)
        MUST((r = array_reader_new()) != NULL);
    enum slimset_status st = array_reader_begin(r, format, array_get_bytes, &bytes, n, &a, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_DAMAGED || st == SLIMSET_NO_MEMORY || (st == SLIMSET_USAGE && format == FORMAT_NPY_BLOSC));
    if (st != SLIMSET_OK)
        return;
    MUST(format != FORMAT_NPY || a.header_bytes + a.data_bytes == n);
    for (uint64_t left = a.data_bytes; st == SLIMSET_OK && left > 0 && left < 1 << 24;) {
        size_t k = left < sizeof chunk ? (size_t)left : sizeof chunk;
        st = array_reader_read(r, chunk, k, &err);
        left -= k;
    }
    if (st == SLIMSET_OK && a.data_bytes < 1 << 24)
        st = array_reader_end(r, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_DAMAGED || st == SLIMSET_NO_MEMORY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slimset_error err = {0};
    struct npy a, b;
    if (n >= NPY_PREFIX && npy_announced(data, n) != 0 && npy_announced(data, n) <= n) {
        enum slimset_status st = npy_parse(data, n, n, &a, &err);
        fuzz_fault(st, &err);
        if (st == SLIMSET_OK) {
            uint64_t count = 1;
            for (unsigned i = 0; i < a.ndim; i++)
                MUST(!__builtin_mul_overflow(count, a.shape[i], &count));
            MUST(count == a.count && a.count * a.itemsize == a.data_bytes && a.header_bytes + a.data_bytes == n);
            MUST((const uint8_t *)a.descr >= data && (const uint8_t *)a.descr + a.descr_bytes <= data + n);
            struct buf head = {0}, text = {0};
            if (npy_header(&a, &head, &err) == SLIMSET_OK && head.len >= NPY_PREFIX) { /* what is written is read as the same */
                MUST(npy_parse(head.data, head.len, head.len + a.data_bytes, &b, &err) == SLIMSET_OK);
                MUST(b.count == a.count && b.itemsize == a.itemsize && b.ndim == a.ndim && b.fortran == a.fortran && b.kind == a.kind);
            }
            MUST(npy_text(&a, &text, &err) == SLIMSET_OK && text.len <= NPY_TEXT_MAX);
            if (npy_is_number(&a)) {
                MUST(npy_parse_text((const char *)text.data, text.len, &b, &err) == SLIMSET_OK);
                MUST(b.count == a.count && b.itemsize == a.itemsize && b.kind == a.kind && b.ndim == a.ndim);
            }
            buf_fini(&head);
            buf_fini(&text);
        }
    }
    enum slimset_status st = npy_parse_text((const char *)data, n, &a, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_DAMAGED);
    char *word = malloc(n + 1);
    MUST(word != NULL);
    memcpy(word, data, n);
    word[n] = '\0';
    st = npy_parse_raw(word, 24, &a, &err);
    MUST(st == SLIMSET_OK || st == SLIMSET_USAGE);
    free(word);
    read_back(data, n, FORMAT_NPY);
    read_back(data, n, FORMAT_NPY_ZST);
    read_back(data, n, FORMAT_NPY_BLOSC);
    return 0;
}
