#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pillow and cjpeg judge the JPEG reader and writer.

    jpeg_judge.py [LIBRARY.so] [--seed N] [--files N] [--bench]

Without a library the sources are compiled into a temporary one (CC, CFLAGS from the environment).
Prints "ok NAME" or "FAIL NAME" for each group and exits 1 if one failed. Pillow uses the same
libjpeg-turbo, so what it decodes without resampling must be equal to the last bit; subsampled
chroma is compared after the upsampling that libjpeg documents, written out here in numpy.
"""
import argparse
import ctypes as C
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image, ImageFile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ["src/jpeg_read.c", "src/jpeg_source.c", "src/jpeg_write.c", "src/jpeg_markers.c", "src/exif.c", "src/image.c",
           "src/base/buf.c", "src/base/err.c"]

OK, BAD_INPUT = 0, 1
UNKNOWN_FORMAT, TRUNCATED, CORRUPT, UNSUPPORTED = 2, 6, 7, 8
TOO_MANY_PIXELS, TOO_MANY_SCANS = 10, 11
GRAY, YCC, RGB, CMYK = 1, 2, 3, 4
WARNING, TAIL_BYTES, FIRST_FRAME, PROFILE_BAD = 1 << 14, 1 << 15, 1 << 13, 1 << 23


class Buf(C.Structure):
    _fields_ = [("data", C.POINTER(C.c_uint8)), ("len", C.c_size_t), ("cap", C.c_size_t),
                ("max", C.c_size_t)]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("reject", C.c_int), ("os_errno", C.c_int),
                ("text", C.c_char * 512)]


class Limits(C.Structure):
    _fields_ = [("max_pixels", C.c_uint64), ("max_side", C.c_uint32), ("max_scans", C.c_uint32),
                ("max_scan_pixels", C.c_uint64)]


class Info(C.Structure):
    _fields_ = [("format", C.c_int), ("w", C.c_uint32), ("h", C.c_uint32),
                ("orientation", C.c_uint8), ("channels", C.c_uint8), ("bits", C.c_uint8),
                ("is_float", C.c_bool), ("alpha", C.c_bool), ("palette", C.c_bool),
                ("progressive", C.c_bool), ("arithmetic", C.c_bool), ("colour", C.c_int),
                ("h_samp", C.c_uint8 * 4), ("v_samp", C.c_uint8 * 4), ("frames", C.c_uint32),
                ("icc", C.c_void_p), ("icc_bytes", C.c_size_t), ("lossless", C.c_bool),
                ("has_metadata", C.c_bool), ("notes", C.c_uint32)]


class Plane(C.Structure):
    _fields_ = [("data", C.c_void_p), ("stride", C.c_size_t), ("w", C.c_uint32), ("h", C.c_uint32),
                ("per_px_x", C.c_double), ("per_px_y", C.c_double)]


class Picture(C.Structure):
    _fields_ = [("w", C.c_uint32), ("h", C.c_uint32), ("colour", C.c_int), ("bits", C.c_uint8),
                ("n_planes", C.c_uint8), ("alpha", C.c_bool), ("plane", Plane * 5),
                ("palette_n", C.c_uint32), ("palette", C.c_uint8 * 4 * 256), ("store", Buf)]


class Settings(C.Structure):
    _fields_ = [("quality", C.c_int), ("subsampling", C.c_int), ("optimise", C.c_bool)]


class Lib:
    def __init__(self, path):
        self.l = C.CDLL(path)
        for f in ("jpeg_reader_new", "jpeg_writer_new"):
            getattr(self.l, f).restype = C.c_void_p
        limits = Limits(178956970, 65500, 100, 5000000000)
        self.reader = C.c_void_p(self.l.jpeg_reader_new(C.byref(limits)))
        self.writer = C.c_void_p(self.l.jpeg_writer_new())
        self.out = Picture()

    def header(self, data):
        info, err = Info(), Error()
        st = self.l.jpeg_reader_header(self.reader, data, C.c_size_t(len(data)), C.byref(info),
                                       C.byref(err))
        return st, info, err

    def decode(self, data, denom=1, colour=None, check=False):
        """(status, reject, notes, planes, text); status of the header when that refuses."""
        st, info, err = self.header(data)
        if st != OK:
            return st, err.reject, 0, None, err.text.decode()
        if colour is not None:
            info.colour = colour
        notes = C.c_uint32(0)
        n = C.c_size_t(len(data))
        if check:
            st = self.l.jpeg_check(self.reader, data, n, C.byref(info), C.byref(notes),
                                   C.byref(err))
            planes = None
        else:
            st = self.l.jpeg_decode(self.reader, data, n, C.byref(info), C.c_uint(denom),
                                    C.byref(self.out), C.byref(notes), C.byref(err))
            planes = self.planes() if st == OK else None
        return st, err.reject if st else 0, notes.value, planes, err.text.decode()

    def planes(self):
        r = []
        for p in self.out.plane[:self.out.n_planes]:
            a = np.ctypeslib.as_array(C.cast(p.data, C.POINTER(C.c_uint8)), (p.h, p.stride))
            r.append(a[:, :p.w].copy())
        return r

    def encode(self, planes, w, h, colour, quality, sub, optimise):
        im, out, err = Picture(), Buf(), Error()
        im.w, im.h, im.colour, im.bits, im.n_planes = w, h, colour, 8, len(planes)
        keep = []
        for i, a in enumerate(planes):
            # As a part of a larger array: what is beside it must not get into the file.
            big = np.full((a.shape[0] + 3, a.shape[1] + 70), 77 + 100 * (i & 1), np.uint8)
            big[:a.shape[0], :a.shape[1]] = a
            keep.append(big)
            p = im.plane[i]
            p.data, p.stride, p.h, p.w = big.ctypes.data, big.strides[0], *a.shape
        s = Settings(quality, sub, optimise)
        st = self.l.jpeg_write(self.writer, C.byref(im), C.byref(s), C.byref(out), C.byref(err))
        data = C.string_at(out.data, out.len) if st == OK else None
        self.l.buf_fini(C.byref(out))
        return st, data, err

    def _to_buf(self, f, data):
        out, err = Buf(), Error()
        st = f(data, C.c_size_t(len(data)), C.byref(out), C.byref(err))
        r = C.string_at(out.data, out.len) if st == OK else None
        self.l.buf_fini(C.byref(out))
        return st, r, err

    def strip(self, data):
        return self._to_buf(self.l.jpeg_strip, data)

    def icc(self, data):
        return self._to_buf(self.l.jpeg_icc, data)


# ---- makers ----

def picture(rng, w, h):
    """Smooth colour with edges and some noise: all Huffman code lengths occur."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    a = np.stack([127 + 120 * np.sin(x / rng.uniform(2, 40) + y / rng.uniform(2, 40) + k)
                  for k in range(3)], -1)
    a += np.random.default_rng(rng.getrandbits(32)).normal(0, rng.choice([0, 3, 30]), a.shape)
    a[:, w // 2:, rng.randrange(3)] = rng.randrange(256)
    return np.clip(a, 0, 255).astype(np.uint8)


def pil(a, **kw):
    b = io.BytesIO()
    im = a if isinstance(a, Image.Image) else Image.fromarray(a)
    im.save(b, "JPEG", **kw)
    return b.getvalue()


def cjpeg(a, *options):
    head = b"P6 %d %d 255\n" % (a.shape[1], a.shape[0])
    r = subprocess.run(["cjpeg", *options], input=head + a.tobytes(), stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, check=True)
    return r.stdout


def segment(code, body):
    return struct.pack(">BBH", 0xFF, code, len(body) + 2) + body


def after_soi(data, *segments):
    return data[:2] + b"".join(segments) + data[2:]


def as_pil(data, mode, denom=1):
    im = Image.open(io.BytesIO(data))
    w, h = im.size
    im.draft(mode, (max(w // denom, 1), max(h // denom, 1)) if denom > 1 else im.size)
    im.load()
    assert im.mode == mode, (im.mode, mode)
    return np.asarray(im)


# ---- libjpeg's upsampling, from its description ----

def up_h2(s):
    s = s.astype(np.int32)
    left = np.concatenate([s[:, :1], s[:, :-1]], 1)
    right = np.concatenate([s[:, 1:], s[:, -1:]], 1)
    r = np.empty((s.shape[0], 2 * s.shape[1]), np.int32)
    r[:, 0::2] = (3 * s + left + 1) >> 2
    r[:, 1::2] = (3 * s + right + 2) >> 2
    r[:, 0], r[:, -1] = s[:, 0], s[:, -1]
    return r


def near_rows(s):
    """3 x this row + the row above and below: rows of twice the height."""
    s = s.astype(np.int32)
    r = np.empty((2 * s.shape[0], s.shape[1]), np.int32)
    r[0::2] = 3 * s + np.concatenate([s[:1], s[:-1]])
    r[1::2] = 3 * s + np.concatenate([s[1:], s[-1:]])
    return r


def up_v2(s):
    r = near_rows(s)
    r[0::2] = (r[0::2] + 1) >> 2
    r[1::2] = (r[1::2] + 2) >> 2
    return r


def up_h2v2(s):
    t = near_rows(s)
    left = np.concatenate([t[:, :1], t[:, :-1]], 1)
    right = np.concatenate([t[:, 1:], t[:, -1:]], 1)
    r = np.empty((t.shape[0], 2 * t.shape[1]), np.int32)
    r[:, 0::2] = (3 * t + left + 8) >> 4
    r[:, 1::2] = (3 * t + right + 7) >> 4
    r[:, 0], r[:, -1] = (4 * t[:, 0] + 8) >> 4, (4 * t[:, -1] + 7) >> 4
    return r


def upsample(s, fx, fy, w, h, fancy):
    if fancy and (fx, fy) == (2, 1) and s.shape[1] > 2:
        r = up_h2(s)
    elif fancy and (fx, fy) == (1, 2):
        r = up_v2(s)
    elif fancy and (fx, fy) == (2, 2) and s.shape[1] > 2:
        r = up_h2v2(s)
    else:
        r = np.repeat(np.repeat(s, fx, 1), fy, 0)
    return r[:h, :w]


# ---- the groups ----

class Judge:
    def __init__(self, lib, rng, files):
        self.lib, self.rng, self.files = lib, rng, files
        self.failed = []

    def run(self, name):
        self.faults = []
        try:
            getattr(self, name)()
        except Exception as e:  # a judge that cannot judge has not passed
            self.faults.append("%s: %s" % (type(e).__name__, e))
        for f in self.faults[:5]:
            print("  " + f)
        print("%s jpeg_%s" % ("FAIL" if self.faults else "ok", name), flush=True)
        if self.faults:
            self.failed.append(name)

    def check(self, cond, text, *args):
        if not cond:
            self.faults.append(text % args)
        return cond

    # -- decoding

    def random_file(self, i):
        rng = self.rng
        w, h = rng.choice([(1, 1), (1, rng.randint(1, 70)), (rng.randint(1, 70), 1)] +
                          [(rng.randint(1, 150), rng.randint(1, 150))] * 9)
        a = picture(rng, w, h)
        q = rng.choice([1, 10, 50, 75, 90, 95, 100])
        if i % 2:
            o = ["-quality", str(q)]
            o += rng.choice([[], ["-progressive"], ["-optimize"], ["-restart", "1"],
                             ["-restart", "%dB" % rng.randint(1, 9)], ["-arithmetic"],
                             ["-arithmetic", "-progressive"], ["-arithmetic", "-restart", "2"]])
            kind = rng.choice(["ycc"] * 6 + ["rgb", "gray"])
            if kind == "ycc":
                o += ["-sample", rng.choice(["1x1", "2x1", "2x2", "1x2", "4x1", "4x2", "1x4", "3x1",
                                             "3x3", "2x2,1x2,2x1", "2x2,2x1,1x1", "1x1,2x2,2x2",
                                             "1x2,2x1,1x1", "2x2,2x2,2x2", "2x2,1x1,2x2"])]
            else:
                o += ["-" + {"rgb": "rgb", "gray": "grayscale"}[kind]]
            try:
                return cjpeg(a, *o), " ".join(o)
            except subprocess.CalledProcessError: # sampling factors too large for one scan
                o[o.index("-sample") + 1] = "2x2"
                return cjpeg(a, *o), " ".join(o)
        kw = dict(quality=q, subsampling=rng.randrange(3), progressive=rng.random() < .3,
                  optimize=rng.random() < .3)
        mode = rng.choice(["RGB"] * 5 + ["L", "CMYK"])
        return pil(Image.fromarray(a).convert(mode), **kw), "%s %s" % (mode, kw)

    def compare(self, data, denom, text):
        st, info, err = self.lib.header(data)
        if not self.check(st == OK, "%s: header: %s", text, err.text):
            return
        st, _, notes, planes, why = self.lib.decode(data, denom)
        if not self.check(st == OK and notes == 0, "%s: %s notes %x", text, why, notes):
            return
        w, h = -(-info.w // denom), -(-info.h // denom)
        mode = {GRAY: "L", YCC: "YCbCr", RGB: "RGB", CMYK: "CMYK"}[info.colour]
        small = denom > 1 and (info.w < denom or info.h < denom)
        if small or (denom > 1 and mode == "CMYK"): # Pillow will not scale these
            return
        want = as_pil(data, mode, denom)
        want = want[:, :, None] if want.ndim == 2 else want
        if mode == "CMYK":
            want = 255 - want
        out = self.lib.out
        self.check(want.shape[:2] == (h, w), "%s: Pillow has %s, not %s", text, want.shape, (h, w))
        self.check((out.w, out.h) == (info.w, info.h), "%s: full size %dx%d", text, out.w, out.h)
        for i, p in enumerate(planes):
            # whole factors, measured from what the plane says of itself
            fx, fy = 1 / (out.plane[i].per_px_x * denom), 1 / (out.plane[i].per_px_y * denom)
            if not self.check(fx == int(fx) and fy == int(fy), "%s: factors %f %f", text, fx, fy):
                return
            self.check(p.shape == (-(-h // int(fy)), -(-w // int(fx))) or denom > 1,
                       "%s: plane %d is %s", text, i, p.shape)
            got = upsample(p, int(fx), int(fy), w, h, denom < 8)
            if not self.check(got.shape == want.shape[:2] and (got == want[:, :, i]).all(),
                              "%s: plane %d differs by up to %d", text, i,
                              np.abs(got.astype(int) - want[:, :, i]).max()
                              if got.shape == want.shape[:2] else -1):
                return

    def decode(self):
        for i in range(self.files):
            data, text = self.random_file(i)
            for denom in (1, self.rng.choice([2, 4, 8])):
                self.compare(data, denom, "%s at 1/%d" % (text, denom))
            if Image.open(io.BytesIO(data)).mode == "RGB":
                st, _, _, planes, why = self.lib.decode(data, 1, colour=RGB)
                want = np.asarray(Image.open(io.BytesIO(data)))
                self.check(st == OK and (np.stack(planes, -1) == want).all(), "%s: RGB %s", text,
                           why)

    def sampling_sizes(self):
        """Planes of 61 x 47 pixels, sizes by the formula of the JPEG standard, A.1.1."""
        a = picture(self.rng, 61, 47)
        for sample, hv in (("4x1", (4, 1)), ("1x2", (1, 2)), ("1x4", (1, 4)), ("3x1", (3, 1)),
                           ("2x2", (2, 2))):
            data = cjpeg(a, "-quality", "90", "-sample", sample)
            st, _, _, planes, why = self.lib.decode(data)
            want = [(47, 61)] + [(-(-47 // hv[1]), -(-61 // hv[0]))] * 2
            self.check(st == OK and [p.shape for p in planes] == want, "%s: %s", sample, why)
        # 4:2:0 at half size: chroma is not reduced a second time
        st, _, _, planes, _ = self.lib.decode(cjpeg(a, "-sample", "2x2"), 2)
        self.check([p.shape for p in planes] == [(24, 31)] * 3, "4:2:0 at 1/2: %s",
                   [p.shape for p in planes])
        # chroma that is 2/3 of luma: nobody upsamples that. One block of each component is one
        # block whatever the factors are, so the header of another file may say so.
        data = bytearray(self.multi_scan(a[:8, :8]))
        sof = data.index(b"\xff\xc0")
        data[sof + 11:sof + 18:3] = b"\x31\x21\x11"
        self.expect("3:2:1", bytes(data), {UNSUPPORTED})
        try:
            Image.open(io.BytesIO(data)).load()
            self.check(False, "3:2:1: the judge can read it")
        except OSError:
            pass
        # luma smaller than chroma
        data = cjpeg(a, "-quality", "95", "-sample", "1x1,2x2,2x2")
        st, _, _, planes, why = self.lib.decode(data)
        self.check(st == OK and [p.shape for p in planes] == [(47, 61)] * 3, "1x1,2x2 %s", why)

    def colours(self):
        """Patches of known colour through every way to store them."""
        patches = [(255, 0, 0), (0, 255, 255), (255, 255, 255), (0, 0, 0)]
        a = np.repeat(np.array([patches], np.uint8), 32, 1).repeat(32, 0)
        mid = [16 + 32 * i for i in range(4)]

        def seen(planes):
            return [tuple(int(p[16, x]) for p in planes) for x in mid]

        def near(got, want, by):
            return all(abs(g - w) <= by for a, b in zip(got, want) for g, w in zip(a, b))
        rgb = cjpeg(a, "-quality", "100", "-rgb")
        _, info, _ = self.lib.header(rgb)
        self.check(info.colour == RGB and near(seen(self.lib.decode(rgb)[3]), patches, 2),
                   "RGB-coded")
        jfif = pil(a, quality=100, subsampling=0)
        bare = jfif[:2] + jfif[2 + 2 + struct.unpack(">H", jfif[4:6])[0]:]
        self.check(b"JFIF" not in bare, "JFIF still there")
        for data in (jfif, bare):
            _, info, _ = self.lib.header(data)
            got = seen(self.lib.decode(data, 1, colour=RGB)[3])
            self.check(info.colour == YCC and near(got, patches, 2), "YCC: %s", got)
        # CMYK of those colours, 255 = no ink: C = R ... , K full
        want = [p + (255,) for p in patches]
        cmyk = Image.fromarray(a).convert("CMYK")
        adobe = pil(cmyk, quality=100, subsampling=0)
        got = seen(self.lib.decode(adobe)[3])
        self.check(near(got, want, 3), "CMYK with Adobe marker: %s", got)
        i = adobe.index(b"\xff\xee")
        n = struct.unpack(">H", adobe[i + 2:i + 4])[0]
        plain = adobe[:i] + adobe[i + 2 + n:]
        self.check(b"Adobe" not in plain, "Adobe still there")
        got = seen(self.lib.decode(plain)[3])
        self.check(near(got, want, 3), "CMYK without Adobe marker: %s", got)
        # YCCK: the same components as YCbCr of the uninverted colours
        ycc = np.asarray(Image.fromarray(255 - a).convert("YCbCr"))
        four = np.dstack([ycc, np.full(ycc.shape[:2], 0, np.uint8)])
        data = pil(Image.fromarray(four, "CMYK"), quality=100, subsampling=0)
        i = data.index(b"Adobe")
        data = data[:i + 11] + b"\2" + data[i + 12:]
        pill = 255 - np.asarray(Image.open(io.BytesIO(data)))
        planes = self.lib.decode(data)[3]
        self.check((np.stack(planes, -1) == pill).all(), "YCCK differs from Pillow")
        # a transform nobody knows: taken as YCC with a warning
        i = rgb.index(b"Adobe")
        odd = rgb[:i + 11] + b"\7" + rgb[i + 12:]
        st, _, notes, _, _ = self.lib.decode(odd)
        self.check(st == OK and notes & WARNING and self.lib.out.colour == YCC, "Adobe transform 7")

    # -- acceptance

    def expect(self, name, data, want):
        """want: a reject class, or the note bits of an accepted file."""
        for check in (False, True):
            st, reject, notes, _, text = self.lib.decode(data, check=check)
            if isinstance(want, set):
                self.check(st == BAD_INPUT and reject in want, "%s: %d %d %s", name, st, reject,
                           text)
            else:
                self.check(st == OK and notes == want, "%s: %d %s notes %x", name, st, text, notes)

    def acceptance(self):
        a = picture(self.rng, 480, 360)
        ok = pil(a, quality=90, subsampling=2)
        prog = pil(a, quality=90, subsampling=2, progressive=True)
        arith = cjpeg(a, "-arithmetic")
        sos, sof = ok.index(b"\xff\xda"), ok.index(b"\xff\xc0")
        n = struct.unpack(">H", ok[sos + 2:sos + 4])[0]
        half = len(ok) // 2
        want = self.lib.decode(ok)[3]
        e = self.expect
        e("ok", ok, 0)
        e("progressive", prog, 0)
        e("trunc50", ok[:half], {TRUNCATED})
        e("trunc99", ok[:int(len(ok) * .99)], {TRUNCATED})
        e("one byte of data missing", ok[:-3], {TRUNCATED})
        e("trunc_progressive30", prog[:int(len(prog) * .3)], {TRUNCATED})
        e("no_eoi", ok[:-2], WARNING)
        e("half of EOI", ok[:-1], WARNING)
        e("progressive no_eoi", prog[:-2], WARNING)
        last = prog.rindex(b"\xff\xda")
        e("progressive, cut before the last scan", prog[:last], {TRUNCATED})
        e("progressive, last scan left out", prog[:last] + b"\xff\xd9", WARNING)
        e("arithmetic no_eoi", arith[:-2], {TRUNCATED})
        e("arithmetic trunc50", arith[:len(arith) // 2], {TRUNCATED})
        # Zeros in the data shift what follows: the decoder runs out of it, or has some left.
        for size in (512, 4096):
            for at in range(20000, len(ok) - 5000, 9000):
                bad = ok[:at] + bytes(size) + ok[at + size:]
                e("%d zeros at %d" % (size, at), bad, {CORRUPT})
        flat = pil(np.full((1200, 1600, 3), 255, np.uint8), quality=90, optimize=True)
        self.check(bytes(400) in flat, "the flat picture has no zeros")
        e("a flat picture with bytes before EOI", flat[:-2] + b"\x12\x34" * 40 + b"\xff\xd9", WARNING)
        e("zeros behind the last row", ok[:-2] + bytes(5000) + b"\xff\xd9", WARNING)
        e("tall_header", ok[:sof + 5] + struct.pack(">H", 720) + ok[sof + 7:], {CORRUPT})
        e("dnl0", ok[:sof + 5] + b"\0\0" + ok[sof + 7:], {CORRUPT, UNSUPPORTED})
        e("bad_app1_len", ok[:2] + b"\xff\xe1\xff\xf0Exif\0\0" + ok[2:], {CORRUPT, TRUNCATED})
        e("marker in the data", ok[:half] + b"\xff\xd9" + ok[half:], {CORRUPT})
        e("garbage before SOI", b"\r\n\r\n" + ok, {UNKNOWN_FORMAT})
        e("only SOI", b"\xff\xd8", {TRUNCATED})
        e("only SOI EOI", b"\xff\xd8\xff\xd9", {CORRUPT})
        e("lying 65500", ok[:sof + 5] + struct.pack(">HH", 65500, 65500) + ok[sof + 9:],
          {TOO_MANY_PIXELS})
        scan = bytearray(ok[sos:sos + 2 + n])
        scan[-2] = 0x3E
        jfif = bytearray(ok)
        at = ok.index(b"JFIF") + 5
        jfif[at] = jfif[at + 1] = 0
        for name, data, notes in (
                ("extraneous", ok[:-2] + b"\x12\x34\x56" * 33 + b"\xff\xd9", WARNING),
                ("samsung_sos", ok[:sos] + bytes(scan) + ok[sos + 2 + n:], WARNING),
                ("jfif_0_00", bytes(jfif), WARNING),
                ("garbage between segments", after_soi(ok, b"junk"), WARNING),
                ("garbage_after_eoi", ok + bytes(1000) + b"junk" * 100, TAIL_BYTES),
                ("two_jpegs", ok + ok, TAIL_BYTES)):
            e(name, data, notes)
            planes = self.lib.decode(data)[3]
            self.check(planes is not None and all((p == q).all() for p, q in zip(planes, want)),
                       "%s: other pixels", name)
        restart = cjpeg(a, "-restart", "1")
        marks = [i for i in range(len(restart) - 1)
                 if restart[i] == 0xFF and 0xD0 <= restart[i + 1] <= 0xD7]
        e("cut at a restart marker", restart[:marks[3]], {TRUNCATED})
        e("cut behind a restart marker", restart[:marks[3] + 2], {TRUNCATED})
        e("restart interval lost", restart[:marks[3]] + restart[marks[4]:], {CORRUPT})
        # kinds that no one here decodes
        for code in (0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF):
            e("SOF%x" % code, ok[:sof + 1] + bytes([code]) + ok[sof + 2:], {UNSUPPORTED})
        e("12-bit", ok[:sof + 1] + b"\xc1" + ok[sof + 2:sof + 4] + b"\x0c" + ok[sof + 5:],
          {UNSUPPORTED})
        two = segment(0xC0, b"\x08\0\x10\0\x10\2\1\x11\0\2\x11\0")
        e("2 components", b"\xff\xd8" + two, {UNSUPPORTED})

    def bombs(self):
        a = picture(self.rng, 64, 64)
        data = cjpeg(a, "-grayscale", "-progressive")
        last = data.rindex(b"\xff\xda")
        n = 2 + struct.unpack(">H", data[last + 2:last + 4])[0]
        # the last refinement of AC 1..63 again and again, with an end-of-band run
        scan = data[last:last + n] + data[last + n:-2]
        self.expect("90 scans", data[:-2] + b"", WARNING)
        many = data[:-2] + scan * 1000 + b"\xff\xd9"
        t = time.perf_counter()
        self.expect("1000 scans", many, {TOO_MANY_SCANS})
        self.check(time.perf_counter() - t < .1, "1000 scans took %.3f s", time.perf_counter() - t)
        # 13000 x 13000 x 40 scans is more than 5e9
        big = bytearray(data[:-2] + scan * 40 + b"\xff\xd9")
        sof = big.index(b"\xff\xc2")
        big[sof + 5:sof + 9] = struct.pack(">HH", 13000, 13000)
        self.expect("scans x pixels", bytes(big), {TOO_MANY_SCANS})
        # CMYK at the pixel limit: more coefficients than three components may have
        cmyk = pil(Image.fromarray(a).convert("CMYK"), progressive=True)
        sof = cmyk.index(b"\xff\xc2")
        big = cmyk[:sof + 5] + struct.pack(">HH", 13000, 13000) + cmyk[sof + 9:]
        self.expect("coefficients", big, {TOO_MANY_PIXELS})
        # baseline of several scans, one of which is missing
        multi = self.multi_scan(a)
        self.expect("three scans", multi, 0)
        self.compare(multi, 1, "three scans")
        last = multi.rindex(b"\xff\xda")
        self.expect("no scan for Cr", multi[:last] + b"\xff\xd9", {CORRUPT})
        self.expect("cut before Cr", multi[:last], {TRUNCATED})
        self.expect("cut within Cr", multi[:-20], {TRUNCATED})
        self.expect("three scans without EOI", multi[:-2], WARNING)

    @staticmethod
    def multi_scan(a):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("0;\n1;\n2;\n")
            f.flush()
            return cjpeg(a, "-scans", f.name)

    def damage(self):
        """jpeg_check says what a full decode says; a cut file never passes."""
        rng = self.rng
        kinds = [dict(), dict(progressive=True), dict(subsampling=0), dict(optimize=True)]
        counts = {}
        for i in range(400):
            a = picture(rng, rng.randint(8, 120), rng.randint(8, 120))
            kind = rng.choice(kinds + ["restart", "arithmetic"])
            data = cjpeg(a, *(["-restart", "1"] if kind == "restart" else ["-arithmetic"])) \
                if isinstance(kind, str) else pil(a, quality=rng.choice([30, 90]), **kind)
            start = data.index(b"\xff\xda") + 12
            if i % 2:
                cut = rng.randint(2, len(data) - 3)
                bad = data[:cut]
            else:
                b = bytearray(data)
                for _ in range(rng.choice([1, 1, 1, 5])):
                    b[rng.randrange(start if rng.random() < .8 else 2,
                                    len(b))] ^= 1 << rng.randrange(8)
                bad = bytes(b)
            full = self.lib.decode(bad)
            check = self.lib.decode(bad, check=True)
            half = self.lib.decode(bad, 2)
            key = lambda r: (r[0], r[1], r[2])
            self.check(key(full) == key(check) == key(half), "%s: full %s, check %s, half %s", kind,
                       (key(full), full[4]), (key(check), check[4]), key(half))
            if i % 2:
                self.check(full[0] == BAD_INPUT and full[1] == TRUNCATED,
                           "%s cut at %d of %d: %s", kind,
                           cut, len(data), (key(full), full[4]))
            counts[key(full)[:2]] = counts.get(key(full)[:2], 0) + 1
        self.check(counts.get((OK, 0), 0) > 5, "no flip was survived: %s", counts)

    # -- metadata

    def tiff(self, kind, value, big):
        e = ">" if big else "<"
        v = struct.pack(e + {3: "HH", 4: "I", 1: "BBBB"}[kind],
                        *{3: (value, 0), 4: (value,), 1: (value, 0, 0, 0)}[kind])
        return (b"MM" if big else b"II") + struct.pack(e + "HIHHHI", 42, 8, 1, 274, kind,
                                                       1) + v + bytes(4)

    def metadata(self):
        a = picture(self.rng, 40, 30)
        ok = pil(a)
        pixels = np.asarray(Image.open(io.BytesIO(ok)))
        exif = lambda t: segment(0xE1, b"Exif\0\0" + t)
        for kind in (1, 3, 4):
            for big in (False, True):
                for value, want in ((6, 6), (8, 8), (0, 1), (9, 1)):
                    _, info, _ = self.lib.header(after_soi(ok, exif(self.tiff(kind, value, big))))
                    self.check(info.orientation == want, "orientation type %d big %d: %d", kind,
                               big,
                               info.orientation)
        two = after_soi(ok, exif(self.tiff(3, 3, 0)), exif(self.tiff(3, 6, 0)))
        self.check(self.lib.header(two)[1].orientation == 3, "the first EXIF does not win")
        xmp = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation='6'/>")
        self.check(self.lib.header(after_soi(ok, xmp))[1].orientation == 1, "XMP was looked at")
        _, info, _ = self.lib.header(ok)
        self.check(not info.has_metadata and info.icc_bytes == 0 and info.frames == 1, "plain file")
        profile = bytes(self.rng.randrange(256) for _ in range(150000))
        parts = [profile[i:i + 60000] for i in range(0, 150000, 60000)]
        icc = [segment(0xE2, b"ICC_PROFILE\0" + bytes([i + 1, 3]) + p) for i, p in enumerate(parts)]
        one = after_soi(ok, segment(0xE2, b"ICC_PROFILE\0\1\1" + profile[:500]))
        _, info, _ = self.lib.header(one)
        self.check(info.icc_bytes == 500 and C.string_at(info.icc, 500) == profile[:500],
                   "ICC in one")
        three = after_soi(ok, icc[2], icc[0], icc[1])
        _, info, _ = self.lib.header(three)
        self.check(info.icc is None and info.icc_bytes == 150000 and info.notes == 0,
                   "ICC in three")
        self.check(self.lib.icc(three)[1] == profile, "ICC joined")
        self.check(Image.open(io.BytesIO(three)).info["icc_profile"] == profile, "judge's ICC")
        for bad in (after_soi(ok, icc[0], icc[1]), after_soi(ok, *icc, icc[1])):
            _, info, _ = self.lib.header(bad)
            self.check(info.notes == PROFILE_BAD and info.icc_bytes > 0, "bad ICC not told")
            self.check(self.lib.icc(bad)[0] == BAD_INPUT, "bad ICC joined")
        # strip
        full = pil(a, exif=exif(self.tiff(3, 6, 0))[4:], icc_profile=profile, comment=b"hello")
        full = after_soi(full, xmp, segment(0xFE, b"comment"), segment(0xED, b"Photoshop 3.0\0"),
                         segment(0xE0, b"JFXX\0\x10"))
        _, info, _ = self.lib.header(full)
        self.check(info.has_metadata and info.orientation == 6, "metadata not seen")
        for data in (full, full + b"tail", pil(a, progressive=True, icc_profile=profile)):
            st, out, err = self.lib.strip(data)
            im = Image.open(io.BytesIO(out))
            left = {k: v for k, v in im.info.items() if not k.startswith(("jfif", "dpi", "progr"))}
            self.check(not left and not im.getexif() and len(im.applist) == 1, "left: %s %s", left,
                       [x[0] for x in im.applist])
            _, info, _ = self.lib.header(out)
            self.check(not info.has_metadata and info.notes == 0, "strip left something")
            self.check((np.asarray(im) == np.asarray(Image.open(io.BytesIO(data)))).all(),
                       "other pixels")
            self.check(self.lib.strip(out)[1] == out, "a second strip changes something")
            s = data.rindex(b"\xff\xda")
            self.check(data[s:data.index(b"\xff\xd9", s)] in out, "entropy data changed")
        self.check(self.lib.strip(ok)[1] == ok, "nothing to strip, yet changed")
        self.check(self.lib.strip(ok[:-2])[1] == ok, "EOI not added")
        self.check(self.lib.strip(b"\xff\xd8\xff\xe1\xff\xffabc")[0] == BAD_INPUT,
                   "strip of a stump")
        cmyk = pil(Image.fromarray(a).convert("CMYK"), icc_profile=b"x" * 300)
        out = self.lib.strip(cmyk)[1]
        self.check((np.asarray(Image.open(io.BytesIO(out))) ==
                    np.asarray(Image.open(io.BytesIO(cmyk)))).all(), "CMYK strip")
        # a thumbnail in the JFIF marker goes
        thumb = ok[:2] + segment(0xE0, ok[6:18] + b"\2\2" + bytes(12)) + ok[20:]
        self.check(self.lib.header(thumb)[1].has_metadata, "thumbnail not seen")
        self.check(self.lib.strip(thumb)[1] == ok, "thumbnail left")
        self.check(pixels.shape == (30, 40, 3), "judge")

    def mpo(self):
        a = picture(self.rng, 40, 30)
        images = [pil(x) for x in (a, a[::-1].copy(), 255 - a)]
        # CIPA DC-007: version, number of images, entries of attributes, size, offset from the "MM"
        size, at = len(images[0]) + 4 + 4 + 8 + 2 + 3 * 12 + 4 + 48, 2 + 4 + 4
        entries, offset = b"", 0
        for k, x in enumerate(images):
            entries += struct.pack(">IIIHH", 0x30000 if k == 0 else 0x20002, len(x) if k else size,
                                   offset, 0, 0)
            offset = (offset or size - at) + (len(x) if k else 0)
        ifd = struct.pack(">H", 3) + struct.pack(">HHI4s", 0xB000, 7, 4, b"0100") + \
            struct.pack(">HHII", 0xB001, 4, 1, 3) + struct.pack(">HHII", 0xB002, 7, 48,
                                                                50) + bytes(4)
        first = after_soi(images[0], segment(0xE2, b"MPF\0MM\0\x2a\0\0\0\x08" + ifd + entries))
        self.check(len(first) == size, "maker: %d, not %d", len(first), size)
        data = first + images[1] + images[2]
        im = Image.open(io.BytesIO(data))
        self.check(im.n_frames == 3, "the judge sees %d frames", im.n_frames)
        _, info, _ = self.lib.header(data)
        self.check(info.frames == 3 and info.notes == FIRST_FRAME | TAIL_BYTES,
                   "frames %d notes %x",
                   info.frames, info.notes)
        planes = self.lib.decode(data, 1, colour=RGB)[3]
        self.check((np.stack(planes, -1) == np.asarray(im)).all(), "not the first image")
        # an index that points to what is no longer there
        eoi = data.index(b"\xff\xd9") + 2
        self.check(self.lib.header(data[:eoi])[1].frames == 1, "frames that are not there")

    # -- writing

    def encode(self):
        """The same bytes as Pillow, from planes that hold what libjpeg would have made."""
        rng = self.rng
        for i in range(150):
            w, h = rng.choice([(1, 1), (1, 17), (16, 16), (rng.randint(1, 90), rng.randint(1, 90)),
                               (rng.randint(1, 90), rng.randint(1, 90))])
            a = picture(rng, w, h)
            q, sub, opt = rng.choice([1, 50, 90, 100]), rng.randrange(3), rng.random() < .5
            kind = rng.choice(["L", "YCbCr", "YCbCr", "RGB"])
            im = Image.fromarray(a).convert(kind)
            kw = {} if kind == "L" else dict(subsampling={0: 2, 1: 1, 2: 0}[sub])
            want = pil(im, quality=q, optimize=opt, **kw)
            p = np.asarray(im)
            planes = [p] if kind == "L" else [p[:, :, k].copy() for k in range(3)]
            if kind == "YCbCr":
                planes[1:] = [self.shrink(c, sub) for c in planes[1:]]
            colour = {"L": GRAY, "YCbCr": YCC, "RGB": RGB}[kind]
            st, got, err = self.lib.encode(planes, w, h, colour, q, sub, opt)
            if st == OK and kind == "YCbCr" and sub < 2 and planes[1].shape[1] % 8:
                # libjpeg repeats pixels before it shrinks chroma, we repeat the shrunk sample: what
                # is beyond the edge may be 1 apart, and so the last blocks differ
                self.check(len(got) <= 1.02 * len(want) + 12, "%dx%d q%d: %d bytes, Pillow %d", w,
                           h, q,
                           len(got), len(want))
                ours, theirs = self.error(got, p), self.error(want, p)
                self.check(ours <= theirs * 1.02 + (.05 if w * h > 500 else .5),
                           "%dx%d q%d sub %d: error %.3f, Pillow %.3f", w, h,
                           q, sub, ours, theirs)
                continue
            self.check(st == OK and got == want,
                       "%s %dx%d q%d sub %d opt %d: %s, %d bytes, Pillow %d", kind,
                       w, h, q, sub, opt, err.text, len(got or b""), len(want))

    @staticmethod
    def error(data, p):
        return np.abs(as_pil(data, "YCbCr").astype(int) - p).mean()

    @staticmethod
    def shrink(c, sub):
        """libjpeg's box filter over the edge-extended plane; the rounding alternates."""
        c = c.astype(np.int32)
        if sub == 2:
            return c.astype(np.uint8)
        c = np.pad(c, ((0, c.shape[0] % 2 if sub == 0 else 0), (0, c.shape[1] % 2)), "edge")
        if sub == 1:
            bias = np.arange(c.shape[1] // 2) % 2
            return ((c[:, 0::2] + c[:, 1::2] + bias) >> 1).astype(np.uint8)
        bias = 1 + np.arange(c.shape[1] // 2) % 2
        s = c[0::2, 0::2] + c[0::2, 1::2] + c[1::2, 0::2] + c[1::2, 1::2]
        return ((s + bias) >> 2).astype(np.uint8)

    def encode_limits(self):
        z = np.zeros((1, 1), np.uint8)
        strip = np.zeros((1, 65501), np.uint8)
        st, _, err = self.lib.encode([strip], 65501, 1, GRAY, 90, 0, True)
        self.check(st == BAD_INPUT and err.reject == TOO_MANY_PIXELS, "65501 wide: %d", st)
        st, data, _ = self.lib.encode([strip[:, :65500].copy()], 65500, 1, GRAY, 90, 0, True)
        self.check(st == OK and Image.open(io.BytesIO(data)).size == (65500, 1), "65500 wide")
        st, _, err = self.lib.encode([z] * 4, 1, 1, CMYK, 90, 0, True)
        self.check(st == 11, "CMYK was taken: %d", st)
        st, _, err = self.lib.encode([np.zeros((8, 8), np.uint8)] * 3, 8, 8, YCC, 90, 0, True)
        self.check(st == 11, "full chroma planes as 4:2:0 were taken: %d", st)


def build(directory):
    out = os.path.join(directory, "libjpeg_judge.so")
    flags = os.environ.get("CFLAGS", "-O2").split()
    cmd = [os.environ.get("CC", "gcc"), "-std=c17", "-D_GNU_SOURCE", '-DSLIMSET_VERSION="0.1.0"',
           *flags,
           "-shared", "-fPIC", "-I" + ROOT + "/src", "-I" + ROOT + "/include", "-o", out]
    subprocess.run(cmd + [os.path.join(ROOT, s) for s in SOURCES] + ["-ljpeg"], check=True)
    return out


def bench(lib, rng):
    base = picture(rng, 256, 256).astype(np.float64)
    big = np.asarray(Image.fromarray(base.astype(np.uint8)).resize((1024, 1024), Image.BICUBIC))
    big = np.clip(big + np.random.default_rng(1).normal(0, 4, big.shape), 0, 255).astype(np.uint8)
    data = pil(big, quality=95, subsampling=2)
    small = pil(big[:512, :512].copy(), quality=95, subsampling=2)

    def best(f, n=30):
        t = []
        for _ in range(n):
            s = time.process_time_ns()
            f()
            t.append(time.process_time_ns() - s)
        return min(t) / 1e6
    info, err, notes = lib.header(data)[1], Error(), C.c_uint32()
    n = C.c_size_t(len(data))
    args = (C.byref(info), C.byref(notes), C.byref(err))
    print("# 1024x1024 4:2:0 q95, %d bytes" % len(data))
    print("# header %.4f ms" % best(lambda: lib.header(data), 200))
    for d in (1, 2, 4, 8):
        print("# decode 1/%d %.2f ms" % (d, best(lambda: lib.l.jpeg_decode(
            lib.reader, data, n, args[0], C.c_uint(d), C.byref(lib.out), args[1], args[2]))))
    print("# check %.2f ms" % best(lambda: lib.l.jpeg_check(lib.reader, data, n, *args)))
    as_rgb = Info.from_buffer_copy(info)
    as_rgb.colour = RGB
    print("# decode RGB %.2f ms" % best(lambda: lib.l.jpeg_decode(
        lib.reader, data, n, C.byref(as_rgb), C.c_uint(1), C.byref(lib.out), args[1], args[2])))
    info = lib.header(small)[1]
    for colour in (YCC, RGB):
        info.colour = colour
        lib.l.jpeg_decode(lib.reader, small, C.c_size_t(len(small)), C.byref(info), C.c_uint(1),
                          C.byref(lib.out), C.byref(notes), C.byref(err))
        for opt in (False, True):
            out, s = Buf(), Settings(90, 0, opt)

            def go():
                out.len = 0
                lib.l.jpeg_write(lib.writer, C.byref(lib.out), C.byref(s), C.byref(out),
                                 C.byref(err))
            t = best(go, 40)
            print("# encode 512x512 q90 4:2:0 from %s, optimised %d: %.2f ms, %d bytes" %
                  ("planes" if colour == YCC else "RGB", opt, t, out.len))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("library", nargs="?")
    p.add_argument("--seed", type=int, default=20240607)
    p.add_argument("--files", type=int, default=500)
    p.add_argument("--bench", action="store_true")
    a = p.parse_args()
    if shutil.which("cjpeg") is None:
        sys.exit("cjpeg is missing (Debian: libjpeg-turbo-progs)")
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    with tempfile.TemporaryDirectory() as d:
        lib = Lib(a.library or build(d))
        rng = random.Random(a.seed)
        if a.bench:
            return bench(lib, rng)
        judge = Judge(lib, rng, a.files)
        for name in ("decode", "sampling_sizes", "colours", "acceptance", "bombs", "damage",
                     "metadata",
                     "mpo", "encode", "encode_limits"):
            judge.run(name)
    if judge.failed:
        sys.exit("failed with --seed %d: %s" % (a.seed, ", ".join(judge.failed)))


if __name__ == "__main__":
    main()
