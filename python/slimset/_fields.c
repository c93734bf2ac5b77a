/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of Reader about one sample: its fields, their bytes, pixels and arrays.
 */
#include "_core.h"

#include <stdio.h>
#include <string.h>

PyObject *core_sample(PyObject *o, PyObject *args)
{
    unsigned long long i;
    struct slimset_sample_view s;
    struct slimset_error err;
    struct slimset_reader *r;
    if (!PyArg_ParseTuple(args, "K", &i) || (r = core_enter(o)) == NULL)
        return NULL;
    enum slimset_status st = slimset_reader_sample(r, i, &s, &err);
    core_leave(o);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    return Py_BuildValue("NNNiN", core_text(s.key), core_text(s.split), core_text(s.class_name), (int)s.cls, core_text(s.part_name));
}

/* The index has the orientation of the source; 1 where the pixels were turned when they were packed. */
static unsigned to_do(const struct slimset_field_view *f)
{
    for (unsigned bit = 0; f->orientation > 1 && bit < 32; bit++) {
        const char *name = f->notes >> bit & 1 ? slimset_note_name(bit) : NULL;
        if (name != NULL && strcmp(name, "rotated") == 0)
            return 1;
    }
    return f->orientation;
}

PyObject *core_fields(PyObject *o, PyObject *args)
{
    unsigned long long i;
    struct slimset_sample_view s;
    struct slimset_field_view f;
    struct slimset_error err;
    struct slimset_reader *r;
    if (!PyArg_ParseTuple(args, "K", &i) || (r = core_enter(o)) == NULL)
        return NULL;
    PyObject *names = NULL;
    enum slimset_status st = slimset_reader_sample(r, i, &s, &err);
    if (st == SLIMSET_OK)
        names = PyList_New(0);
    for (uint32_t k = 0; names != NULL && st == SLIMSET_OK && k < s.n_fields; k++) {
        st = slimset_reader_field(r, i, k, &f, &err);
        if (st != SLIMSET_OK)
            break;
        PyObject *item = Py_BuildValue("NsIIIIIs", core_text(f.name), f.role != NULL ? f.role : "", (unsigned)f.w, (unsigned)f.h,
                                       (unsigned)f.channels, (unsigned)f.bits, to_do(&f),
                                       f.format != NULL ? f.format : "");
        if (item == NULL || PyList_Append(names, item) != 0)
            Py_CLEAR(names);
        Py_XDECREF(item);
    }
    core_leave(o);
    if (st == SLIMSET_OK)
        return names;
    Py_XDECREF(names);
    return core_fail(st, &err);
}

PyObject *core_find(PyObject *o, PyObject *args)
{
    PyObject *key, *bytes;
    struct slimset_error err;
    struct slimset_reader *r;
    uint64_t i = 0;
    if (!PyArg_ParseTuple(args, "O", &key) || (bytes = core_bytes(key)) == NULL)
        return NULL;
    if ((r = core_enter(o)) == NULL) {
        Py_DECREF(bytes);
        return NULL;
    }
    enum slimset_status st = slimset_reader_find(r, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes), &i, &err);
    core_leave(o);
    Py_DECREF(bytes);
    return st == SLIMSET_OK ? PyLong_FromUnsignedLongLong(i) : core_fail(st, &err);
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

bool core_field_begin(PyObject *o, unsigned long long i, PyObject *name, struct found *to)
{
    struct slimset_error err;
    *to = (struct found){0};
    if (name != Py_None && (to->name = core_bytes(name)) == NULL)
        return false;
    to->r = core_enter(o);
    enum slimset_status st = SLIMSET_OK;
    if (to->r != NULL)
        st = field_number(to->r, i, to->name != NULL ? PyBytes_AsString(to->name) : NULL,
                          to->name != NULL ? (size_t)PyBytes_Size(to->name) : 0, &to->k, &to->f, &err);
    if (to->r != NULL && st == SLIMSET_OK)
        return true;
    if (to->r != NULL) {
        core_leave(o);
        core_fail(st, &err);
    }
    Py_XDECREF(to->name);
    return false;
}

void core_field_done(PyObject *o, struct found *f)
{
    core_leave(o);
    Py_XDECREF(f->name);
}

PyObject *core_read(PyObject *o, PyObject *args)
{
    unsigned long long i;
    PyObject *name, *bytes;
    struct found f;
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    size_t n = 0;
    if (!PyArg_ParseTuple(args, "KO", &i, &name) || !core_field_begin(o, i, name, &f))
        return NULL;
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)f.f.bytes);
    if (bytes != NULL) {
        char *to = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS
        st = slimset_reader_read(f.r, i, f.k, to, f.f.bytes, &n, &err);
        Py_END_ALLOW_THREADS
    }
    core_field_done(o, &f);
    if (st == SLIMSET_OK)
        return bytes;
    Py_XDECREF(bytes);
    return core_fail(st, &err);
}

PyObject *core_decode(PyObject *o, PyObject *args)
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
        !core_field_begin(o, i, name, &f))
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
            core_fail(st, &err);
        if (!more || PyByteArray_Resize(pixels, (Py_ssize_t)px.bytes) != 0)
            Py_CLEAR(pixels);
        cap = px.bytes;
    }
    core_field_done(o, &f);
    return pixels == NULL ? NULL : Py_BuildValue("NIIII", pixels, px.h, px.w, (unsigned)px.channels, (unsigned)px.bits);
}

PyObject *core_decode_size(PyObject *o, PyObject *args)
{
    unsigned long long i;
    PyObject *name;
    struct found f;
    struct slimset_pixels px = {0};
    struct slimset_error err;
    enum slimset_status st = SLIMSET_OK;
    if (!PyArg_ParseTuple(args, "KO", &i, &name) || !core_field_begin(o, i, name, &f))
        return NULL;
    if (f.f.orientation > 1 || f.f.w == 0 || f.f.h == 0) { /* the index has the size of the upright picture */
        Py_BEGIN_ALLOW_THREADS
        st = slimset_reader_decode_size(f.r, i, f.k, NULL, &px, &err);
        Py_END_ALLOW_THREADS
    } else {
        px.w = f.f.w;
        px.h = f.f.h;
    }
    core_field_done(o, &f);
    return st == SLIMSET_OK ? Py_BuildValue("II", px.h, px.w) : core_fail(st, &err);
}

PyObject *core_decode_batch(PyObject *o, PyObject *args)
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
    PyObject *field = name != Py_None ? core_bytes(name) : NULL;
    if (name != Py_None && field == NULL)
        return NULL;
    if ((r = core_enter(o)) == NULL) {
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
    core_leave(o);
    Py_XDECREF(field);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    Py_RETURN_NONE;
}

PyObject *core_prefetch(PyObject *o, PyObject *args)
{
    PyObject *samples;
    struct slimset_error err;
    struct slimset_reader *r;
    enum slimset_status st;
    if (!PyArg_ParseTuple(args, "S", &samples) || (r = core_enter(o)) == NULL)
        return NULL;
    const uint64_t *list = (const uint64_t *)(const void *)PyBytes_AsString(samples);
    size_t n = (size_t)PyBytes_Size(samples) / sizeof *list;
    Py_BEGIN_ALLOW_THREADS
    st = slimset_reader_prefetch(r, list, n, &err);
    Py_END_ALLOW_THREADS
    core_leave(o);
    if (st != SLIMSET_OK)
        return core_fail(st, &err);
    Py_RETURN_NONE;
}
