/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the extension share: the type, and how a call into the library begins, ends and
 * fails.
 */
#ifndef SLIMSET_CORE_H
#define SLIMSET_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdbool.h>

#include "slimset/reader.h"

struct reader {
    PyObject_HEAD
    struct slimset_reader *r; /* NULL: closed */
    long busy;                /* calls inside of the library; changed with the GIL held */
};

/* Raises what the status stands for (slimset.errors); always NULL. */
void *core_fail(enum slimset_status st, const struct slimset_error *err);

/* Around a call into the library: NULL with an exception when it is closed. */
struct slimset_reader *core_enter(PyObject *o);
void core_leave(PyObject *o);

/* Names and paths, as os.fsdecode and os.fsencode have them; NULL with an exception, NotFoundError for what no name can be. */
PyObject *core_text(struct slimset_text t);
PyObject *core_bytes(PyObject *text);

/* A field found for a call: enter, name, number (None: the first image). False with an exception; undo with core_field_done. */
struct found {
    struct slimset_reader *r;
    PyObject *name; /* bytes, or NULL */
    uint32_t k;
    struct slimset_field_view f;
};
bool core_field_begin(PyObject *o, unsigned long long i, PyObject *name, struct found *to);
void core_field_done(PyObject *o, struct found *f);

/* _fields.c */
PyObject *core_sample(PyObject *o, PyObject *args);
PyObject *core_fields(PyObject *o, PyObject *args);
PyObject *core_find(PyObject *o, PyObject *args);
PyObject *core_read(PyObject *o, PyObject *args);
PyObject *core_decode(PyObject *o, PyObject *args);
PyObject *core_decode_size(PyObject *o, PyObject *args);
PyObject *core_decode_batch(PyObject *o, PyObject *args);
PyObject *core_prefetch(PyObject *o, PyObject *args);

/* _array.c: a method, and a function of the module. */
PyObject *core_array(PyObject *o, PyObject *args);
PyObject *core_array_from(PyObject *module, PyObject *args);

#endif
