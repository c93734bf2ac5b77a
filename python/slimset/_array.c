/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays: a field of a dataset, and the bytes of one that came from elsewhere (webdataset's decoder). Both are asked twice: for
 * the shape, and for the data.
 */
#include "_core.h"

/* Where an array comes from. */
struct origin {
    struct found *found; /* of sample i; NULL: */
    unsigned long long i;
    const char *bytes, *name;
    Py_ssize_t n, name_n;
};

static enum slimset_status get(const struct origin *from, struct slimset_array *a, void *to, size_t cap, struct slimset_error *err)
{
    if (from->found != NULL)
        return slimset_reader_array(from->found->r, from->i, from->found->k, a, to, cap, err);
    return slimset_array_decode(from->bytes, (size_t)from->n, from->name, (size_t)from->name_n, a, to, cap, err);
}

/* (data, dtype, shape, fortran) */
static PyObject *array_of(const struct origin *from)
{
    struct slimset_array a = {0};
    struct slimset_error err;
    enum slimset_status st;
    Py_BEGIN_ALLOW_THREADS
    st = get(from, &a, NULL, 0, &err);
    Py_END_ALLOW_THREADS
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    PyObject *data = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)a.bytes);
    PyObject *shape = data != NULL ? PyTuple_New(a.dims) : NULL;
    char *to = shape != NULL ? PyByteArray_AsString(data) : NULL;
    if (to != NULL) {
        Py_BEGIN_ALLOW_THREADS
        st = get(from, &a, to, (size_t)a.bytes, &err);
        Py_END_ALLOW_THREADS
        if (st != SLIMSET_OK)
            core_fail(st, &err);
    }
    if (to == NULL || st != SLIMSET_OK) {
        Py_XDECREF(shape);
        Py_XDECREF(data);
        return NULL;
    }
    for (uint32_t k = 0; k < a.dims; k++)
        PyTuple_SetItem(shape, k, PyLong_FromUnsignedLongLong(a.shape[k]));
    return Py_BuildValue("NsNN", data, a.descr[0] != '\0' ? a.descr : a.dtype, shape, PyBool_FromLong(a.fortran));
}

PyObject *core_array(PyObject *o, PyObject *args)
{
    struct origin from = {0};
    struct found f;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "KO", &from.i, &name) || !core_field_begin(o, from.i, name, &f))
        return NULL;
    from.found = &f;
    PyObject *made = array_of(&from);
    core_field_done(o, &f);
    return made;
}

PyObject *core_array_from(PyObject *module, PyObject *args)
{
    struct origin from = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y#s#", &from.bytes, &from.n, &from.name, &from.name_n))
        return NULL;
    return array_of(&from);
}
