/* SPDX-License-Identifier: Apache-2.0
 *
 * An array out of the bytes that were stored for it, without a dataset: for webdataset's decoder.
 */
#include "_core.h"

#include "array_read.h"

PyObject *core_array_from(PyObject *module, PyObject *args)
{
    struct array_bytes stored;
    const char *bytes;
    Py_ssize_t n;
    int blosc;
    struct npy a;
    struct slimset_error err;
    PyObject *data = NULL, *header = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#p", &bytes, &n, &blosc))
        return NULL;
    struct array_reader *r = array_reader_new();
    if (r == NULL)
        return PyErr_NoMemory();
    stored = (struct array_bytes){(const uint8_t *)bytes, (size_t)n};
    enum slimset_status st = array_reader_begin(r, blosc ? FORMAT_NPY_BLOSC : FORMAT_NPY_ZST, array_get_bytes, &stored, (uint64_t)n,
                                                &a, &err);
    if (st == SLIMSET_OK) {
        const struct buf *h = array_reader_header(r);
        header = PyBytes_FromStringAndSize((const char *)h->data, (Py_ssize_t)h->len);
        data = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)a.data_bytes);
    }
    char *to = data != NULL ? PyByteArray_AsString(data) : NULL;
    if (to != NULL && header != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = array_reader_read(r, to, (size_t)a.data_bytes, &err);
        if (st == SLIMSET_OK)
            st = array_reader_end(r, &err);
        Py_END_ALLOW_THREADS
    }
    array_reader_free(r);
    if (st == SLIMSET_OK && to != NULL && header != NULL)
        return Py_BuildValue("NN", header, data);
    Py_XDECREF(header);
    Py_XDECREF(data);
    return st != SLIMSET_OK ? core_fail(st, &err) : NULL;
}
