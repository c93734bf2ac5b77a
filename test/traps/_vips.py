# SPDX-License-Identifier: Apache-2.0
"""libvips as a decoder to compare with, through ctypes: an upright picture as a numpy array. lib is None without it."""
import ctypes as C

import numpy as np

TYPES = {0: np.uint8, 2: np.uint16, 6: np.float32}


def _open():
    try:
        lib = C.CDLL("libvips.so.42")
    except OSError:
        return None
    for name, result, arguments in (
            ("vips_init", C.c_int, [C.c_char_p]),
            ("vips_image_new_from_buffer", C.c_void_p, None),
            ("vips_autorot", C.c_int, None),
            ("vips_image_get_width", C.c_int, [C.c_void_p]),
            ("vips_image_get_height", C.c_int, [C.c_void_p]),
            ("vips_image_get_bands", C.c_int, [C.c_void_p]),
            ("vips_image_get_format", C.c_int, [C.c_void_p]),
            ("vips_image_write_to_memory", C.c_void_p, [C.c_void_p, C.POINTER(C.c_size_t)]),
            ("vips_image_get_typeof", C.c_size_t, [C.c_void_p, C.c_char_p]),
            ("vips_error_buffer", C.c_char_p, []),
            ("vips_error_clear", None, []),
            ("g_object_unref", None, [C.c_void_p]),
            ("g_free", None, [C.c_void_p])):
        f = getattr(lib, name)
        f.restype, f.argtypes = result, arguments
    if lib.vips_init(b"slimset-test") != 0:
        return None
    lib.vips_cache_set_max(0)
    lib.vips_concurrency_set(1)
    return lib


lib = _open()


def pages(data):
    """Whether libvips says how many frames a file has."""
    if lib is None:
        return False
    image = lib.vips_image_new_from_buffer(C.c_char_p(data), C.c_size_t(len(data)), C.c_char_p(b""), C.c_void_p(None))
    known = bool(image) and lib.vips_image_get_typeof(C.c_void_p(image), b"n-pages") != 0
    if image:
        lib.g_object_unref(C.c_void_p(image))
    return known


def read(data):
    image, upright, n = None, C.c_void_p(), C.c_size_t()
    lib.vips_error_clear()
    image = lib.vips_image_new_from_buffer(C.c_char_p(data), C.c_size_t(len(data)), C.c_char_p(b""), C.c_void_p(None))
    if not image:
        raise ValueError("libvips: " + lib.vips_error_buffer().decode(errors="replace").strip())
    try:
        if lib.vips_autorot(C.c_void_p(image), C.byref(upright), C.c_void_p(None)) != 0:
            raise ValueError("libvips cannot turn it")
        w, h, bands = (f(upright) for f in (lib.vips_image_get_width, lib.vips_image_get_height, lib.vips_image_get_bands))
        kind = TYPES[lib.vips_image_get_format(upright)]
        bytes_ = lib.vips_image_write_to_memory(upright, C.byref(n))
        if not bytes_:
            raise ValueError("libvips: " + lib.vips_error_buffer().decode(errors="replace").strip())
        a = np.frombuffer(C.string_at(bytes_, n.value), kind).reshape(h, w, bands)
        lib.g_free(bytes_)
        return a[..., 0] if bands == 1 else a
    finally:
        if upright:
            lib.g_object_unref(upright)
        lib.g_object_unref(C.c_void_p(image))
