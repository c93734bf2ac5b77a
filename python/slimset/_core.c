/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python package's door to libslimset: one type, Reader, over struct slimset_reader. It speaks in
 * numbers, bytes and bytearrays; arrays are made of those on the Python side (dataset.py), so that
 * nothing of NumPy is needed to build this. Only the stable ABI of Python 3.9 is used.
 *
 * Every call into the library is made without the GIL. Pixels and arrays come in a bytearray that the
 * library writes into: NumPy takes it over as it is.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slimset/reader.h"

/* Built once, when the module is loaded, from slimset.errors; one a status. */
static PyObject *error_of[SLIMSET_INTERNAL + 1];

struct reader {
    PyObject_HEAD
    struct slimset_reader *r; /* NULL: closed */
    long busy;                /* calls inside of the library; changed with the GIL held */
};

static void *fail(enum slimset_status st, const struct slimset_error *err)
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

static struct slimset_reader *enter(PyObject *o)
{
    struct reader *self = (struct reader *)o;
    if (self->r == NULL)
        PyErr_SetString(PyExc_ValueError, "this dataset is closed");
    else
        self->busy++;
    return self->r;
}

static void leave(PyObject *o)
{
    ((struct reader *)o)->busy--;
}

static PyObject *text_of(struct slimset_text t)
{
    return PyUnicode_DecodeUTF8(t.bytes, (Py_ssize_t)t.n, "surrogateescape");
}

/* The bytes of a str as paths and names have them; NULL with an exception. */
static PyObject *bytes_of(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
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
        return fail(st, &err);
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
    struct slimset_reader *r = enter(o);
    struct slimset_info info;
    (void)none;
    if (r == NULL)
        return NULL;
    slimset_reader_info(r, &info);
    leave(o);
    return Py_BuildValue("{sK sK sK sK sK sK sN sK}", "samples", (unsigned long long)info.samples,
                         "fields", (unsigned long long)info.fields, "rejects", (unsigned long long)info.rejects,
                         "parts", (unsigned long long)info.parts, "splits", (unsigned long long)info.splits,
                         "classes", (unsigned long long)info.classes, "tree", PyBool_FromLong(info.tree),
                         "bytes", (unsigned long long)info.bytes);
}

static PyObject *reader_meta(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = enter(o);
    (void)none;
    if (r == NULL)
        return NULL;
    struct slimset_text t = slimset_reader_meta(r);
    leave(o);
    return text_of(t);
}

/* Appends what `one` makes of each number below n. */
static PyObject *list_of(PyObject *o, uint64_t n, PyObject *(*one)(struct slimset_reader *, uint64_t))
{
    struct slimset_reader *r = enter(o);
    PyObject *list = r != NULL ? PyList_New(0) : NULL;
    for (uint64_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = one(r, i);
        if (item == NULL || PyList_Append(list, item) != 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (r != NULL)
        leave(o);
    return list;
}

static PyObject *one_class(struct slimset_reader *r, uint64_t i)
{
    struct slimset_text name;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_class(r, i, &name, &err);
    return st == SLIMSET_OK ? text_of(name) : fail(st, &err);
}

static PyObject *one_split(struct slimset_reader *r, uint64_t i)
{
    struct slimset_split_view s;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_split(r, i, &s, &err);
    if (st != SLIMSET_OK)
        return fail(st, &err);
    return Py_BuildValue("NKK", text_of(s.name), (unsigned long long)s.first_sample, (unsigned long long)s.n_samples);
}

static PyObject *one_part(struct slimset_reader *r, uint64_t i)
{
    struct slimset_part_view p;
    struct slimset_error err;
    enum slimset_status st = slimset_reader_part(r, i, &p, &err);
    if (st != SLIMSET_OK)
        return fail(st, &err);
    return Py_BuildValue("NNKKK", text_of(p.name), text_of(p.split), (unsigned long long)p.first_sample,
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
    struct slimset_reader *r = enter(o);
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
            fail(st, &err);
        else
            keys = PyBytes_FromStringAndSize(out.keys, (Py_ssize_t)out.keys_n);
    }
    leave(o);
    free(out.keys);
    if (keys == NULL) {
        Py_XDECREF(rows);
        return NULL;
    }
    return Py_BuildValue("NN", rows, keys);
}

static PyObject *reader_labels(PyObject *o, PyObject *none)
{
    struct slimset_reader *r = enter(o);
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
    leave(o);
    if (st == SLIMSET_OK)
        return all;
    Py_XDECREF(all);
    return fail(st, &err);
}

/* --- one sample ----------------------------------------------------------------------------------- */

static PyObject *reader_sample(PyObject *o, PyObject *args)
{
    unsigned long long i;
    struct slimset_sample_view s;
    struct slimset_error err;
    struct slimset_reader *r;
    if (!PyArg_ParseTuple(args, "K", &i) || (r = enter(o)) == NULL)
        return NULL;
    enum slimset_status st = slimset_reader_sample(r, i, &s, &err);
    leave(o);
    if (st != SLIMSET_OK)
        return fail(st, &err);
    return Py_BuildValue("NNNiN", text_of(s.key), text_of(s.split), text_of(s.class_name), (int)s.cls, text_of(s.part_name));
}

static PyObject *reader_fields(PyObject *o, PyObject *args)
{
    unsigned long long i;
    struct slimset_sample_view s;
    struct slimset_field_view f;
    struct slimset_error err;
    struct slimset_reader *r;
    if (!PyArg_ParseTuple(args, "K", &i) || (r = enter(o)) == NULL)
        return NULL;
    PyObject *names = NULL;
    enum slimset_status st = slimset_reader_sample(r, i, &s, &err);
    if (st == SLIMSET_OK)
        names = PyList_New(0);
    for (uint32_t k = 0; names != NULL && st == SLIMSET_OK && k < s.n_fields; k++) {
        st = slimset_reader_field(r, i, k, &f, &err);
        if (st != SLIMSET_OK)
            break;
        PyObject *item = Py_BuildValue("NsIIIII", text_of(f.name), f.role != NULL ? f.role : "", (unsigned)f.w, (unsigned)f.h,
                                       (unsigned)f.channels, (unsigned)f.bits, (unsigned)f.orientation);
        if (item == NULL || PyList_Append(names, item) != 0)
            Py_CLEAR(names);
        Py_XDECREF(item);
    }
    leave(o);
    if (st == SLIMSET_OK)
        return names;
    Py_XDECREF(names);
    return fail(st, &err);
}

static PyObject *reader_find(PyObject *o, PyObject *args)
{
    PyObject *key, *bytes;
    struct slimset_error err;
    struct slimset_reader *r;
    uint64_t i = 0;
    if (!PyArg_ParseTuple(args, "O", &key) || (bytes = bytes_of(key)) == NULL)
        return NULL;
    if ((r = enter(o)) == NULL) {
        Py_DECREF(bytes);
        return NULL;
    }
    enum slimset_status st = slimset_reader_find(r, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes), &i, &err);
    leave(o);
    Py_DECREF(bytes);
    return st == SLIMSET_OK ? PyLong_FromUnsignedLongLong(i) : fail(st, &err);
}

/* Field `name` of sample i; None: the first image. */
static enum slimset_status field_number(struct slimset_reader *r, uint64_t i, const char *name, size_t n, uint32_t *k,
                                        struct slimset_field_view *f, struct slimset_error *err)
{
    enum slimset_status st;
    if (name != NULL) {
        st = slimset_reader_field_named(r, i, name, n, k, err);
        return st == SLIMSET_OK ? slimset_reader_field(r, i, *k, f, err) : st;
    }
    struct slimset_sample_view s;
    st = slimset_reader_sample(r, i, &s, err);
    for (*k = 0; st == SLIMSET_OK && *k < s.n_fields; (*k)++) {
        st = slimset_reader_field(r, i, *k, f, err);
        if (st == SLIMSET_OK && f->role != NULL && strcmp(f->role, "image") == 0)
            return SLIMSET_OK;
    }
    if (st != SLIMSET_OK)
        return st;
    err->status = SLIMSET_NOT_FOUND;
    snprintf(err->text, sizeof err->text, "the sample %.*s has no image", (int)(s.key.n < 300 ? s.key.n : 300), s.key.bytes);
    return SLIMSET_NOT_FOUND;
}

/* A field found for a call: enter, name, number. Undo with field_done. */
struct found {
    struct slimset_reader *r;
    PyObject *name; /* bytes, or NULL */
    uint32_t k;
    struct slimset_field_view f;
};

static bool field_begin(PyObject *o, unsigned long long i, PyObject *name, struct found *to)
{
    struct slimset_error err;
    *to = (struct found){0};
    if (name != Py_None && (to->name = bytes_of(name)) == NULL)
        return false;
    to->r = enter(o);
    enum slimset_status st = SLIMSET_OK;
    if (to->r != NULL)
        st = field_number(to->r, i, to->name != NULL ? PyBytes_AsString(to->name) : NULL,
                          to->name != NULL ? (size_t)PyBytes_Size(to->name) : 0, &to->k, &to->f, &err);
    if (to->r != NULL && st == SLIMSET_OK)
        return true;
    if (to->r != NULL) {
        leave(o);
        fail(st, &err);
    }
    Py_XDECREF(to->name);
    return false;
}

static void field_done(PyObject *o, struct found *f)
{
    leave(o);
    Py_XDECREF(f->name);
}

static PyObject *reader_read(PyObject *o, PyObject *args)
{
    unsigned long long i;
    PyObject *name, *bytes;
    struct found f;
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    size_t n = 0;
    if (!PyArg_ParseTuple(args, "KO", &i, &name) || !field_begin(o, i, name, &f))
        return NULL;
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)f.f.bytes);
    if (bytes != NULL) {
        char *to = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS
        st = slimset_reader_read(f.r, i, f.k, to, f.f.bytes, &n, &err);
        Py_END_ALLOW_THREADS
    }
    field_done(o, &f);
    if (st == SLIMSET_OK)
        return bytes;
    Py_XDECREF(bytes);
    return fail(st, &err);
}

static PyObject *reader_decode(PyObject *o, PyObject *args)
{
    unsigned long long i;
    unsigned channels, chw, scale, min_w, min_h, x, y, w, h;
    PyObject *name;
    struct found f;
    struct slimset_decode_options options;
    struct slimset_pixels px = {0};
    struct slimset_error err;
    enum slimset_status st;
    if (!PyArg_ParseTuple(args, "KOIIIIIIIII", &i, &name, &channels, &chw, &scale, &min_w, &min_h, &x, &y, &w, &h) ||
        !field_begin(o, i, name, &f))
        return NULL;
    slimset_decode_options_init(&options);
    options.channels = (uint8_t)channels;
    options.layout = chw ? SLIMSET_CHW : SLIMSET_HWC;
    options.scale = (uint8_t)scale;
    options.min_w = min_w;
    options.min_h = min_h;
    options.crop = (struct slimset_box){x, y, w, h};
    /* A guess by the index; what is too little is said by the decoder, which looks at the header. */
    size_t cap = (size_t)(w != 0 ? w : f.f.w) * (h != 0 ? h : f.f.h) * (channels != 0 ? channels : f.f.channels) *
                 (f.f.bits > 8 ? 2 : 1);
    if (cap > (size_t)1 << 32 || scale > 1 || min_w != 0)
        cap = 0;
    PyObject *pixels = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)cap);
    for (int tries = 0;; tries++) {
        char *to = pixels != NULL ? PyByteArray_AsString(pixels) : NULL;
        if (to == NULL)
            break;
        Py_BEGIN_ALLOW_THREADS
        st = slimset_reader_decode(f.r, i, f.k, &options, to, cap, &px, &err);
        Py_END_ALLOW_THREADS
        if (st == SLIMSET_OK && px.bytes != cap && PyByteArray_Resize(pixels, (Py_ssize_t)px.bytes) != 0)
            Py_CLEAR(pixels);
        if (st == SLIMSET_OK)
            break;
        bool more = st == SLIMSET_LIMIT && tries == 0 && px.bytes > cap;
        if (!more)
            fail(st, &err);
        if (!more || PyByteArray_Resize(pixels, (Py_ssize_t)px.bytes) != 0)
            Py_CLEAR(pixels);
        cap = px.bytes;
    }
    field_done(o, &f);
    return pixels == NULL ? NULL : Py_BuildValue("NIIII", pixels, px.h, px.w, (unsigned)px.channels, (unsigned)px.bits);
}

static PyObject *reader_decode_size(PyObject *o, PyObject *args)
{
    unsigned long long i;
    PyObject *name;
    struct found f;
    struct slimset_pixels px = {0};
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    if (!PyArg_ParseTuple(args, "KO", &i, &name) || !field_begin(o, i, name, &f))
        return NULL;
    if (f.f.orientation > 1 || f.f.w == 0 || f.f.h == 0) { /* the index has the size of the upright picture */
        Py_BEGIN_ALLOW_THREADS
        st = slimset_reader_decode_size(f.r, i, f.k, NULL, &px, &err);
        Py_END_ALLOW_THREADS
    } else {
        px.w = f.f.w;
        px.h = f.f.h;
    }
    field_done(o, &f);
    return st == SLIMSET_OK ? Py_BuildValue("II", px.h, px.w) : fail(st, &err);
}

static PyObject *reader_decode_batch(PyObject *o, PyObject *args)
{
    PyObject *samples, *name, *boxes;
    unsigned w, h, fit, channels, chw, fast, nearest, threads;
    unsigned long long address, cap;
    struct slimset_resize_options options;
    struct slimset_reader *r;
    struct slimset_error err;
    enum slimset_status st;
    size_t failed = 0;
    if (!PyArg_ParseTuple(args, "SOIIIIIIIOIKK", &samples, &name, &w, &h, &fit, &channels, &chw, &fast, &nearest, &boxes, &threads,
                          &address, &cap))
        return NULL;
    size_t n = (size_t)PyBytes_Size(samples) / sizeof(uint64_t);
    if (boxes != Py_None && (!PyBytes_Check(boxes) || (size_t)PyBytes_Size(boxes) != n * sizeof(struct slimset_box)))
        return PyErr_SetString(PyExc_ValueError, "one box for each sample is wanted"), NULL;
    PyObject *field = name != Py_None ? bytes_of(name) : NULL;
    if (name != Py_None && field == NULL)
        return NULL;
    if ((r = enter(o)) == NULL) {
        Py_XDECREF(field);
        return NULL;
    }
    slimset_resize_options_init(&options);
    options.w = w;
    options.h = h;
    options.fit = (enum slimset_fit)fit;
    options.channels = (uint8_t)channels;
    options.layout = chw ? SLIMSET_CHW : SLIMSET_HWC;
    options.fast = fast != 0;
    options.nearest = nearest != 0;
    const uint64_t *list = (const uint64_t *)(const void *)PyBytes_AsString(samples);
    const struct slimset_box *box = boxes != Py_None ? (const struct slimset_box *)(const void *)PyBytes_AsString(boxes) : NULL;
    const char *field_name = field != NULL ? PyBytes_AsString(field) : NULL;
    size_t field_n = field != NULL ? (size_t)PyBytes_Size(field) : 0;
    Py_BEGIN_ALLOW_THREADS
    st = slimset_reader_decode_batch(r, list, n, field_name, field_n, &options, box, threads, (void *)(uintptr_t)address,
                                     (size_t)cap, &failed, &err);
    Py_END_ALLOW_THREADS
    leave(o);
    Py_XDECREF(field);
    if (st != SLIMSET_OK)
        return fail(st, &err);
    Py_RETURN_NONE;
}

static PyObject *reader_array(PyObject *o, PyObject *args)
{
    unsigned long long i;
    PyObject *name, *data = NULL, *shape = NULL;
    struct found f;
    struct slimset_array a = {0};
    struct slimset_error err;
    enum slimset_status st;
    if (!PyArg_ParseTuple(args, "KO", &i, &name) || !field_begin(o, i, name, &f))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = slimset_reader_array(f.r, i, f.k, &a, NULL, 0, &err);
    Py_END_ALLOW_THREADS
    if (st == SLIMSET_OK || (st == SLIMSET_LIMIT && a.bytes > 0)) {
        data = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)a.bytes);
        char *to = data != NULL ? PyByteArray_AsString(data) : NULL;
        st = SLIMSET_OK;
        if (to != NULL && a.bytes > 0) {
            Py_BEGIN_ALLOW_THREADS
            st = slimset_reader_array(f.r, i, f.k, &a, to, a.bytes, &err);
            Py_END_ALLOW_THREADS
        }
    }
    field_done(o, &f);
    if (st != SLIMSET_OK) {
        Py_XDECREF(data);
        return fail(st, &err);
    }
    if (data == NULL || (shape = PyTuple_New(a.dims)) == NULL) {
        Py_XDECREF(data);
        return NULL;
    }
    for (uint32_t k = 0; k < a.dims; k++)
        PyTuple_SetItem(shape, k, PyLong_FromUnsignedLongLong(a.shape[k]));
    return Py_BuildValue("NsNN", data, a.dtype, shape, PyBool_FromLong(a.fortran));
}

static PyObject *reader_prefetch(PyObject *o, PyObject *args)
{
    PyObject *samples;
    struct slimset_error err;
    struct slimset_reader *r;
    enum slimset_status st;
    if (!PyArg_ParseTuple(args, "S", &samples) || (r = enter(o)) == NULL)
        return NULL;
    const uint64_t *list = (const uint64_t *)(const void *)PyBytes_AsString(samples);
    size_t n = (size_t)PyBytes_Size(samples) / sizeof *list;
    Py_BEGIN_ALLOW_THREADS
    st = slimset_reader_prefetch(r, list, n, &err);
    Py_END_ALLOW_THREADS
    leave(o);
    if (st != SLIMSET_OK)
        return fail(st, &err);
    Py_RETURN_NONE;
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
    return st == SLIMSET_OK ? PyLong_FromUnsignedLongLong(bytes) : fail(st, &err);
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
    {"sample", reader_sample, METH_VARARGS, "(key, split, class, label, file)"},
    {"fields", reader_fields, METH_VARARGS, "[(name, role, w, h, channels, bits, orientation)]"},
    {"find", reader_find, METH_VARARGS, NULL},
    {"read", reader_read, METH_VARARGS, NULL},
    {"decode", reader_decode, METH_VARARGS, "(pixels, h, w, channels, bits)"},
    {"decode_size", reader_decode_size, METH_VARARGS, "(h, w)"},
    {"decode_batch", reader_decode_batch, METH_VARARGS, NULL},
    {"array", reader_array, METH_VARARGS, "(data, dtype, shape, fortran)"},
    {"prefetch", reader_prefetch, METH_VARARGS, NULL},
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
