#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""resample.h judged by Pillow and numpy: python3 test/unit/resample_judge.py [directory of photos]

Lanczos against Pillow's, nearest against Pillow's, the orientations against Image.transpose, 16 bits
against the filter's definition in float64, and the siting of halved chroma planes. Compiles the
module into a temporary library with $CC (gcc). Without photos, smoothed noise stands in.
"""
import ctypes as c
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SEED = 20240611
SLACK = 64
LANCZOS, NEAREST = Image.Resampling.LANCZOS, Image.Resampling.NEAREST


class Plane(c.Structure):
    _fields_ = [("data", c.c_void_p), ("stride_bytes", c.c_size_t), ("w", c.c_uint32), ("h", c.c_uint32),
                ("per_px_x", c.c_double), ("per_px_y", c.c_double)]


class Region(c.Structure):
    _fields_ = [("x", c.c_double), ("y", c.c_double), ("w", c.c_double), ("h", c.c_double)]


def build(folder):
    so = os.path.join(folder, "resample.so")
    src = [ROOT / "src" / f for f in ("resample.c", "resample_avx2.c", "orient.c", "base/buf.c", "base/err.c")]
    subprocess.run([os.environ.get("CC", "gcc"), "-std=c17", "-O2", "-fPIC", "-shared", "-D_GNU_SOURCE",
                    '-DSLIMSET_VERSION="0"', f"-I{ROOT}/src", f"-I{ROOT}/include", "-o", so, *map(str, src), "-lm"],
                   check=True)
    lib = c.CDLL(so)
    lib.resampler_new.restype = c.c_void_p
    lib.resampler_set_kernel.argtypes = [c.c_void_p, c.c_int]
    lib.resample_lanczos.argtypes = [c.c_void_p, c.POINTER(Plane), Region, c.POINTER(Plane), c.c_uint8, c.c_void_p]
    lib.resample_nearest.argtypes = [c.POINTER(Plane), c.POINTER(Plane), c.c_uint8]
    lib.resample_nearest.restype = None
    lib.resample_orient.argtypes = [c.POINTER(Plane), c.c_int, c.POINTER(Plane), c.c_uint8]
    lib.resample_orient.restype = None
    return lib


class Held:
    """A plane over numpy memory with the promised slack behind each row."""

    def __init__(self, h, w, dtype, fill=None):
        self.size = np.dtype(dtype).itemsize
        self.mem = np.zeros((h, w + SLACK // self.size), dtype)
        self.view = self.mem[:, :w]
        if fill is not None:
            self.view[:] = fill
        self.plane = Plane(self.mem.ctypes.data, self.mem.strides[0], w, h, 1, 1)


class Module:
    def __init__(self, lib):
        self.lib, self.r = lib, lib.resampler_new()
        self.err = c.create_string_buffer(4096)

    def lanczos(self, a, w, h, box=None, level=-1):
        src, dst = Held(*a.shape, a.dtype, a), Held(h, w, a.dtype)
        x0, y0, x1, y1 = box or (0, 0, a.shape[1], a.shape[0])
        self.lib.resampler_set_kernel(self.r, level)
        st = self.lib.resample_lanczos(self.r, c.byref(src.plane), Region(x0, y0, x1 - x0, y1 - y0),
                                       c.byref(dst.plane), 8 * a.dtype.itemsize, self.err)
        assert st == 0
        return dst.view

    def nearest(self, a, w, h):
        src, dst = Held(*a.shape, a.dtype, a), Held(h, w, a.dtype)
        self.lib.resample_nearest(c.byref(src.plane), c.byref(dst.plane), 8 * a.dtype.itemsize)
        return dst.view

    def orient(self, a, o):
        h, w = a.shape if o < 5 else a.shape[::-1]
        src, dst = Held(*a.shape, a.dtype, a), Held(h, w, a.dtype)
        self.lib.resample_orient(c.byref(src.plane), o, c.byref(dst.plane), 8 * a.dtype.itemsize)
        return dst.view


def photos(folder, rng):
    out = []
    if folder:
        for p in sorted(Path(folder).glob("*.jp*g"))[:12]:
            out += [np.asarray(plane) for plane in Image.open(p).convert("YCbCr").split()[:2]]
    if not out:
        for _ in range(8):
            noise = Image.fromarray(rng.integers(60, 196, (60, 80)).astype(np.uint8)).resize((640, 480), Image.Resampling.BICUBIC)
            out.append(np.asarray(noise))
    return out


def weights(n, start, extent, n_dst):
    """The definition in float64: n_dst x n."""
    scale = max(extent / n_dst, 1)
    centre = np.clip(start + (np.arange(n_dst) + 0.5) * extent / n_dst, 0, n)
    t = (np.arange(n)[None, :] + 0.5 - centre[:, None]) / scale
    w = np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0)
    return w / w.sum(1, keepdims=True)


def defined(a, w, h, box=None):
    x0, y0, x1, y1 = box or (0, 0, a.shape[1], a.shape[0])
    d = weights(a.shape[0], y0, y1 - y0, h) @ a.astype(float) @ weights(a.shape[1], x0, x1 - x0, w).T
    return np.clip(d, 0, np.iinfo(a.dtype).max)


def geometry(rng, a):
    """A cut of a photo, a size, a box inside or None."""
    h, w = (int(rng.integers(1, s + 1)) for s in a.shape)
    if rng.random() < 0.4:
        h, w = a.shape[0] - int(rng.integers(0, 9)), a.shape[1] - int(rng.integers(0, 9))
    y, x = int(rng.integers(0, a.shape[0] - h + 1)), int(rng.integers(0, a.shape[1] - w + 1))
    f = np.exp(rng.uniform(np.log(0.03), np.log(2.2), 2))
    if rng.random() < 0.5:
        f[1] = f[0]
    tw, th = max(1, int(w * f[0])), max(1, int(h * f[1]))
    box = None
    if rng.random() < 0.3:
        bw, bh = w * rng.uniform(0.3, 1), h * rng.uniform(0.3, 1)
        bx, by = (w - bw) * rng.random(), (h - bh) * rng.random()
        box = (bx, by, min(bx + bw, w), min(by + bh, h))
    return a[y:y + h, x:x + w], tw, th, box


def judge_pillow(m, pics, rng):
    """Pillow rounds and clips to 8 bits between its passes, which alone is a mean of about 0.1 and up to
    0.2 of a level where both axes are filtered: so the mean is judged over all, and each geometry must
    be closer to the definition than Pillow is."""
    bad, worst, sums, ours, pillows = [], 0, [], [], []
    for i in range(300):
        small = i % 3 == 0 # for the definition, which is slow
        pic = pics[i % len(pics)]
        a, w, h, box = geometry(rng, pic[100:300, 100:320] if small else pic)
        want = np.asarray(Image.fromarray(a).resize((w, h), LANCZOS, box=box)).astype(int)
        got = m.lanczos(a, w, h, box).astype(int)
        d = np.abs(got - want)
        worst = max(worst, d.max())
        sums.append(d.mean())
        if d.max() > 2 or d.mean() >= 0.25 and d.size >= 400: # over a few samples it is no mean
            bad.append((a.shape, w, h, box, int(d.max()), float(d.mean())))
        if small:
            true = np.rint(defined(a, w, h, box))
            ours.append(np.mean(got != true))
            pillows.append(np.mean(want != true))
            if ours[-1] > max(pillows[-1], 0.02):
                bad.append((a.shape, w, h, box, float(ours[-1]), float(pillows[-1])))
    mean = np.mean(sums)
    print(f"  300 geometries: largest difference from Pillow {worst}, mean {mean:.4f}; samples that are not the "
          f"definition rounded: {np.mean(ours):.2%}, Pillow {np.mean(pillows):.2%}")
    if mean >= 0.15:
        bad.append(("mean", mean))
    return bad


def judge_definition(m, pics, rng):
    bad, worst = [], {8: 0.0, 16: 0.0}
    for i in range(100):
        a, w, h, box = geometry(rng, pics[i % len(pics)][:220, :260])
        bits = 16 if i % 2 else 8
        if bits == 16:
            a = (a.astype(np.uint16) * 257) ^ rng.integers(0, 256, a.shape).astype(np.uint16)
        if i % 10 == 3:
            a = (rng.integers(0, 2, a.shape) * np.iinfo(a.dtype).max).astype(a.dtype)
        d = np.abs(m.lanczos(a, w, h, box, level=-(i // 2 % 2)).astype(float) - defined(a, w, h, box)).max()
        worst[bits] = max(worst[bits], d)
        if d > (0.55 if bits == 8 else 1):
            bad.append((bits, a.shape, w, h, box, float(d)))
    print(f"  largest difference from the definition: {worst[8]:.3f} of 255, {worst[16]:.3f} of 65535")
    return bad


def judge_kernels(m, pics, rng):
    bad = []
    for i in range(100):
        a, w, h, box = geometry(rng, pics[i % len(pics)])
        if not np.array_equal(m.lanczos(a, w, h, box), m.lanczos(a, w, h, box, level=0)):
            bad.append((a.shape, w, h, box))
    return bad


def judge_extreme(m, pics, rng):
    bad = []
    for sw, sh, w, h in [(65500, 1, 1, 1), (20000, 2, 3, 5), (4000, 2, 512, 1), (1, 1, 512, 9), (3, 9000, 2, 4),
                         (30000, 1, 20, 1), (1, 3, 1, 700), (2600, 3, 10, 3), (2000, 2000, 1, 1), (1100, 900, 4, 3)]:
        a = rng.integers(0, 256, (sh, sw), np.uint8)
        a[:, : sw // 2] //= 2
        for b in (a, a.astype(np.uint16) * 257):
            d = np.abs(m.lanczos(b, w, h).astype(float) - defined(b, w, h)).max()
            if d > (0.6 if b.dtype == np.uint8 else 6):
                bad.append((sw, sh, w, h, str(b.dtype), float(d)))
    return bad


def judge_chroma(m, pics, rng):
    """A plane of odd size halved, as 4:2:0 chroma is: ramp in pixels of the whole picture."""
    bad = []
    for n, m_dst in [(1023, 512), (767, 384), (1001, 333), (257, 193), (375, 256), (333, 500)]:
        half, half_dst = (n + 1) // 2, (m_dst + 1) // 2
        ramp = np.tile((200 + 60 * (2 * np.arange(half) + 1)).astype(np.uint16), (4, 1)) # at chroma centres
        pixels = n / m_dst * 2 * half_dst # of the source that the whole chroma plane of dst stands for
        got = m.lanczos(ramp, half_dst, 4, (0, 0, pixels / 2, 4))[1].astype(float)
        want = 200 + 60 * (2 * np.arange(half_dst) + 1) * n / m_dst
        cut = slice(int(4 * max(1, m_dst / n)) + 1, -int(4 * max(1, m_dst / n)) - 1)
        shift = np.abs(got - want)[cut].max() / 120 # in chroma samples
        if shift >= 0.05:
            bad.append((n, m_dst, float(shift)))
    return bad


def judge_nearest(m, pics, rng):
    bad = []
    for i in range(200):
        h, w, th, tw = (int(v) for v in rng.integers(1, 400, 4))
        a = rng.integers(0, 256, (h, w), np.uint8)
        got = m.nearest(a, tw, th)
        want = np.asarray(Image.fromarray(a).resize((tw, th), NEAREST))
        ys, xs = ((2 * np.arange(t) + 1) * s // (2 * t) for t, s in ((th, h), (tw, w)))
        wide = a.astype(np.uint16) * 251
        if not (np.array_equal(got, a[np.ix_(ys, xs)]) and np.array_equal(m.nearest(wide, tw, th), wide[np.ix_(ys, xs)])):
            bad.append(("formula", w, h, tw, th))
        # Pillow adds up positions in floating point: where it lands just below a whole number that
        # the exact value reaches, it takes the sample before.
        exact = [((2 * np.arange(t) + 1) * s % (2 * t) == 0) for t, s in ((th, h), (tw, w))]
        plain = np.ix_(~exact[0], ~exact[1])
        if not np.array_equal(got[plain], want[plain]):
            bad.append(("Pillow", w, h, tw, th))
        elif not np.array_equal(got, want):
            judge_nearest.ties = getattr(judge_nearest, "ties", 0) + 1
    print(f"  geometries in which Pillow rounded a tie the other way: {getattr(judge_nearest, 'ties', 0)} of 200")
    return bad


def judge_orient(m, pics, rng):
    t = Image.Transpose
    table = {2: t.FLIP_LEFT_RIGHT, 3: t.ROTATE_180, 4: t.FLIP_TOP_BOTTOM, 5: t.TRANSPOSE, 6: t.ROTATE_270,
             7: t.TRANSVERSE, 8: t.ROTATE_90}
    bad = []
    for i in range(80):
        o = i % 8 + 1
        a = rng.integers(0, 256, tuple(rng.integers(1, 130, 2)), np.uint8)
        pic = Image.fromarray(a)
        want = np.asarray(pic.transpose(table[o]) if o > 1 else pic)
        wide = m.orient(a.astype(np.uint16) * 257, o)
        if not (np.array_equal(m.orient(a, o), want) and np.array_equal(wide, want.astype(np.uint16) * 257)):
            bad.append((o, a.shape))
    return bad


def main():
    rng = np.random.default_rng(SEED)
    pics = photos(sys.argv[1] if len(sys.argv) > 1 else None, rng)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        m = Module(build(folder))
        for f in (judge_pillow, judge_definition, judge_kernels, judge_extreme, judge_chroma, judge_nearest, judge_orient):
            bad = f(m, pics, rng)
            for b in bad[:5]:
                print("  ", b)
            failed |= bool(bad)
            print("FAIL" if bad else "ok", f.__name__)
    return failed


if __name__ == "__main__":
    sys.exit(main())
