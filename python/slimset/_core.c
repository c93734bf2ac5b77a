/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python package's door to libslimset: one type, Reader, over struct slimset_reader. It speaks in
 * numbers, bytes and bytearrays; arrays are made of those on the Python side (dataset.py), so that
 * nothing of NumPy is needed to build this. Only the stable ABI of Python 3.9 is used.
 *
 * Every call into the library is made without the GIL. Pixels and arrays come in a bytearray that the
 * library writes into: NumPy takes it over as it is.
 */
#include "_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Built once, when the module is loaded, from slimset.errors; one a status. */
static PyObject *error_of[SLIMSET_INTERNAL + 1];

void *core_fail(enum slimset_status st, const struct slimset_error *err)
{
    if (st == SLIMSET_NO_MEMORY)
        return PyErr_SetString(PyExc_MemoryError, err->text), NULL;
    PyObject *kind = st > 0 && st <= SLIMSET_INTERNAL ? error_of[st] : NULL;
    PyObject *text = PyUnicode_DecodeUTF8(err->text, (Py_ssize_t)strlen(err->text), "replace");
    if (text != NULL)
        PyErr_SetObject(kind != NULL ? kind : PyExc_RuntimeError, text);
    Py_XDECREF(text);
    return NULL;
}

struct slimset_reader *core_enter(PyObject *o)
{
    struct reader *self = (struct reader *)o;
    if (self->r == NULL)
        PyErr_SetString(PyExc_ValueError, "this dataset is closed");
    else
        self->busy++;
    return self->r;
}

void core_leave(PyObject *o)
{
    ((struct reader *)o)->busy--;
}

PyObject *core_text(struct slimset_text t)
{
    return PyUnicode_DecodeUTF8(t.bytes, (Py_ssize_t)t.n, "surrogateescape");
}

PyObject *core_bytes(PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (bytes == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) /* a lone surrogate */
        PyErr_Format(error_of[SLIMSET_NOT_FOUND], "there is nothing of the name %A", text);
    return bytes;
}

/* --- open, close ---------------------------------------------------------------------------------- */

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *path = NULL;
    int preload = 0, verify = 1;
    struct slimset_reader_options options;
    struct slimset_reader *r = NULL;
    struct slimset_error err;
    enum slimset_status st;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O&ip", PyUnicode_FSConverter, &path, &preload, &verify))
        return NULL;
    slimset_reader_options_init(&options);
    options.preload = (enum slimset_preload)preload;
    options.verify = verify != 0;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    st = slimset_reader_open_with(name, &options, &r, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct reader *self = (struct reader *)alloc(type, 0);
    if (self == NULL)
        slimset_reader_close(r);
    else
        self->r = r;
    return (PyObject *)self;
}

static void reader_dealloc(PyObject *o)
{
    struct reader *self = (struct reader *)o;
    PyTypeObject *type = Py_TYPE(o);
    slimset_reader_close(self->r);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(o);
    Py_DECREF(type);
}

static PyObject *reader_close(PyObject *o, PyObject *none)
{
    struct reader *self = (struct reader *)o;
    (void)none;
    if (self->busy > 0)
        return PyErr_SetString(PyExc_ValueError, "another thread is reading from this dataset"), NULL;
    slimset_reader_close(self->r);
    self->r = NULL;
    Py_RETURN_NONE;
}

/* --- what there is -------------------------------------------------------------------------------- */

static PyObject *reader_info(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = core_enter(o);
    struct slimset_info info;
    (void)none;
    if (r == NULL)
        return NULL;
    slimset_reader_info(r, &info);
    core_leave(o);
    return Py_BuildValue("{sK sK sK sK sK sK sN sK sK}", "samples", (unsigned long long)info.samples,
                         "fields", (unsigned long long)info.fields, "rejects", (unsigned long long)info.rejects,
                         "parts", (unsigned long long)info.parts, "splits", (unsigned long long)info.splits,
                         "classes", (unsigned long long)info.classes, "tree", PyBool_FromLong(info.tree),
                         "bytes", (unsigned long long)info.bytes, "index_hash", (unsigned long long)info.index_hash);
}

static PyObject *reader_meta(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = core_enter(o);
    (void)none;
    if (r == NULL)
        return NULL;
    struct slimset_text t = slimset_reader_meta(r);
    core_leave(o);
    return core_text(t);
}

/* Appends what `one` makes of each number below n. */
static PyObject *list_of(PyObject *o, uint64_t n, PyObject *(*one)(struct slimset_reader *, uint64_t))
{
    struct slimset_reader *r = core_enter(o);
    PyObject *list = r != NULL ? PyList_New(0) : NULL;
    for (uint64_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = one(r, i);
        if (item == NULL || PyList_Append(list, item) != 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (r != NULL)
        core_leave(o);
    return list;
}

static PyObject *one_class(struct slimset_reader *r, uint64_t i)
{
    struct slimset_text name;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_class(r, i, &name, &err);
    return st == SLIMSET_OK ? core_text(name) : core_fail(st, &err);
}

static PyObject *one_split(struct slimset_reader *r, uint64_t i)
{
    struct slimset_split_view s;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_split(r, i, &s, &err);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    return Py_BuildValue("NKK", core_text(s.name), (unsigned long long)s.first_sample, (unsigned long long)s.n_samples);
}

static PyObject *one_part(struct slimset_reader *r, uint64_t i)
{
    struct slimset_part_view p;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_part(r, i, &p, &err);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    return Py_BuildValue("NNKKK", core_text(p.name), core_text(p.split), (unsigned long long)p.first_sample,
                         (unsigned long long)p.n_samples, (unsigned long long)p.bytes);
}

static PyObject *reader_classes(PyObject *o, PyObject *none)
{
    struct slimset_info info = {0};
    (void)none;
    if (((struct reader *)o)->r != NULL)
        slimset_reader_info(((struct reader *)o)->r, &info);
    return list_of(o, info.classes, one_class);
}

static PyObject *reader_splits(PyObject *o, PyObject *none)
{
    struct slimset_info info = {0};
    (void)none;
    if (((struct reader *)o)->r != NULL)
        slimset_reader_info(((struct reader *)o)->r, &info);
    return list_of(o, info.splits, one_split);
}

static PyObject *reader_parts(PyObject *o, PyObject *none)
{
    struct slimset_info info = {0};
    (void)none;
    if (((struct reader *)o)->r != NULL)
        slimset_reader_info(((struct reader *)o)->r, &info);
    return list_of(o, info.parts, one_part);
}

/* One row a sample, as dataset.py reads it (ROW). */
struct row {
    uint64_t bytes;  /* of all fields */
    uint64_t key_at; /* in the keys behind one another */
    int32_t label;   /* -1 none */
    uint32_t key_n;
    uint32_t w, h;   /* of the first image; 0 none */
};

struct rows {
    struct row *row;
    char *keys;
    size_t keys_n, keys_cap;
};

static enum slimset_status keep_key(struct rows *out, struct slimset_text key, struct slimset_error *err)
{
    if (key.n > out->keys_cap - out->keys_n) {
        size_t cap = 2 * out->keys_cap + key.n + 4096;
        char *grown = realloc(out->keys, cap);
        if (grown == NULL) {
            snprintf(err->text, sizeof err->text, "no memory for the keys of all samples");
            return SLIMSET_NO_MEMORY;
        }
        out->keys = grown;
        out->keys_cap = cap;
    }
    memcpy(out->keys + out->keys_n, key.bytes, key.n);
    out->keys_n += key.n;
    return SLIMSET_OK;
}

static enum slimset_status one_row(struct slimset_reader *r, uint64_t i, struct rows *out, struct slimset_error *err)
{
    struct slimset_sample_view s;
    struct slimset_field_view f;
    struct row *row = &out->row[i];
    enum slimset_status st = slimset_reader_sample(r, i, &s, err);
    if (st != SLIMSET_OK)
        return st;
    *row = (struct row){.key_at = out->keys_n, .key_n = (uint32_t)s.key.n, .label = s.cls};
    st = keep_key(out, s.key, err);
    for (uint32_t k = 0; st == SLIMSET_OK && k < s.n_fields; k++) {
        st = slimset_reader_field(r, i, k, &f, err);
        if (st != SLIMSET_OK)
            break;
        row->bytes += f.bytes;
        if (row->w == 0 && f.role != NULL && strcmp(f.role, "image") == 0) {
            row->w = f.w;
            row->h = f.h;
        }
    }
    return st;
}

static PyObject *reader_rows(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = core_enter(o);
    struct slimset_info info;
    struct slimset_error err;
    struct rows out = {0};
    enum slimset_status st = SLIMSET_OK;
    PyObject *rows = NULL, *keys = NULL;
    (void)none;
    if (r == NULL)
        return NULL;
    slimset_reader_info(r, &info);
    rows = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(info.samples * sizeof *out.row));
    if (rows != NULL) {
        out.row = (struct row *)(void *)PyByteArray_AsString(rows);
        Py_BEGIN_ALLOW_THREADS
        for (uint64_t i = 0; st == SLIMSET_OK && i < info.samples; i++)
            st = one_row(r, i, &out, &err);
        Py_END_ALLOW_THREADS
        if (st != SLIMSET_OK)
            core_fail(st, &err);
        else
            keys = PyBytes_FromStringAndSize(out.keys, (Py_ssize_t)out.keys_n);
    }
    core_leave(o);
    free(out.keys);
    if (keys == NULL) {
        Py_XDECREF(rows);
        return NULL;
    }
    return Py_BuildValue("NN", rows, keys);
}

static PyObject *reader_labels(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = core_enter(o);
    struct slimset_info info;
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    (void)none;
    if (r == NULL)
        return NULL;
    slimset_reader_info(r, &info);
    PyObject *all = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(info.samples * sizeof(int32_t)));
    if (all != NULL) {
        int32_t *label = (int32_t *)(void *)PyByteArray_AsString(all);
        Py_BEGIN_ALLOW_THREADS
        for (uint64_t i = 0; st == SLIMSET_OK && i < info.samples; i++) {
            struct slimset_sample_view s;
            st = slimset_reader_sample(r, i, &s, &err);
            if (st == SLIMSET_OK)
                label[i] = s.cls;
        }
        Py_END_ALLOW_THREADS
    }
    core_leave(o);
    if (st == SLIMSET_OK)
        return all;
    Py_XDECREF(all);
    return core_fail(st, &err);
}

/* --- the module ----------------------------------------------------------------------------------- */

static PyObject *preload_drop(PyObject *module, PyObject *args)
{
    PyObject *path = NULL;
    uint64_t bytes = 0;
    struct slimset_error err;
    enum slimset_status st;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    st = slimset_preload_drop(name, &bytes, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return st == SLIMSET_OK ? PyLong_FromUnsignedLongLong(bytes) : core_fail(st, &err);
}

static PyMethodDef reader_methods[] = {
    {"close", reader_close, METH_NOARGS, NULL},
    {"info", reader_info, METH_NOARGS, NULL},
    {"meta", reader_meta, METH_NOARGS, NULL},
    {"classes", reader_classes, METH_NOARGS, NULL},
    {"splits", reader_splits, METH_NOARGS, "[(name, first sample, samples)]"},
    {"parts", reader_parts, METH_NOARGS, "[(file, split, first sample, samples, bytes)]"},
    {"rows", reader_rows, METH_NOARGS, "(rows, keys)"},
    {"labels", reader_labels, METH_NOARGS, "int32 for each sample"},
    {"sample", core_sample, METH_VARARGS, "(key, split, class, label, file)"},
    {"fields", core_fields, METH_VARARGS, "[(name, role, w, h, channels, bits, orientation, format)]"},
    {"find", core_find, METH_VARARGS, NULL},
    {"read", core_read, METH_VARARGS, NULL},
    {"decode", core_decode, METH_VARARGS, "(pixels, h, w, channels, bits)"},
    {"decode_size", core_decode_size, METH_VARARGS, "(h, w)"},
    {"decode_batch", core_decode_batch, METH_VARARGS, NULL},
    {"array", core_array, METH_VARARGS, "(data, dtype, shape, fortran)"},
    {"prefetch", core_prefetch, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, reader_methods},
    {Py_tp_doc, "Reader(path, preload, verify): an open dataset."},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "slimset._core.Reader",
    .basicsize = sizeof(struct reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reader_slots,
};

static PyMethodDef module_methods[] = {
    {"preload_drop", preload_drop, METH_VARARGS, NULL},
    {"array_from", core_array_from, METH_VARARGS, "(data, dtype, shape, fortran)"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "slimset._core",
    .m_size = -1,
    .m_methods = module_methods,
};

static bool take_errors(void)
{
    static const struct {
        enum slimset_status status;
        const char *name;
    } table[] = {
        {SLIMSET_BAD_INPUT, "InputError"}, {SLIMSET_IO, "ReadError"},        {SLIMSET_USAGE, "UsageError"},
        {SLIMSET_DIFFERS, "ChangedError"}, {SLIMSET_DAMAGED, "DamagedError"}, {SLIMSET_NOT_FOUND, "NotFoundError"},
        {SLIMSET_LIMIT, "LimitError"},     {SLIMSET_INTERNAL, "Error"},
    };
    PyObject *errors = PyImport_ImportModule("slimset.errors");
    for (size_t i = 0; errors != NULL && i < sizeof table / sizeof table[0]; i++)
        if ((error_of[table[i].status] = PyObject_GetAttrString(errors, table[i].name)) == NULL)
            Py_CLEAR(errors);
    Py_XDECREF(errors);
    return errors != NULL;
}

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    if (!take_errors())
        return NULL;
    PyObject *module = PyModule_Create(&module_def);
    PyObject *type = module != NULL ? PyType_FromSpec(&reader_spec) : NULL;
    if (type == NULL || PyModule_AddObject(module, "Reader", type) != 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
