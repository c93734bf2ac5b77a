# SPDX-License-Identifier: Apache-2.0
# time-limit: 900 s
"""Random combinations of format, depth, coding, size, orientation and alpha: slimset's decoders against others.

usage: random_files.py [N] [SEED]; without arguments 2,000 files of a fixed seed. What is random of a file comes from the
seed and its number alone, so `random_files.py 2000 SEED` makes file 1234 again. JPEG, PNG, BMP and PNM are judged against
Pillow and against libvips, formats that slimset itself reads through libvips against Pillow or against what was encoded.
Prints how far apart they are for each format.
"""
import collections
import io
import os
import shutil
import sys
import tempfile

import numpy as np
from PIL import Image

from _table import compare, report, without_alpha
import _table
import _vips
from _make import bmp, chunk, cjpeg, encoded, exif, jpeg, png, seen, tiff, upright, with_exif
from _frame import ls, members, pack, rejects, write
from png_judge import CHANNELS, DEPTHS

SEED = 20261
BATCH = 250


def picture(r, w, h, channels, top):
    """Smooth, noisy, flat or drawn; h x w x channels."""
    kind = r.integers(4)
    y, x = np.mgrid[:h, :w].astype(np.float64)
    k = np.arange(channels)
    a = 0.5 + 0.5 * np.sin(x[..., None] / r.uniform(3, 60) * (1 + k % 2) + y[..., None] / r.uniform(3, 60) + k * r.uniform(0, 3))
    if kind == 1:
        a = np.clip(a + r.normal(0, 0.2, a.shape), 0, 1)
    elif kind == 2:
        a[:] = r.uniform(0, 1, channels)
    elif kind == 3:
        a = np.round(a * 3) / 3
    return np.rint(a * top).astype(np.int64)


def size(r):
    if r.integers(8) == 0:
        return (int(r.choice([1, 2, 3, 7, 8, 9])), int(r.choice([1, 2, 5, 16, 17])))[::int(r.choice([1, -1]))]
    return int(r.integers(4, 130)), int(r.integers(4, 110))


def make_jpeg(r, w, h, o):
    gray = r.integers(5) == 0
    a = picture(r, w, h, 3, 255).astype(np.uint8)
    q = str(int(r.choice([20, 50, 75, 90, 97, 100])))
    sample = str(r.choice(["1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "4x2", "2x4"]))
    words = ["-quality", q, *(["-grayscale"] if gray else ["-rgb"] if r.integers(10) == 0 else ["-sample", f"{sample},1x1,1x1"])]
    words += [[], ["-progressive"], ["-arithmetic"], ["-optimize"], ["-restart", "1"], ["-restart", "3B"]][int(r.integers(6))]
    data = cjpeg(a, *words)
    # In the same YCbCr, Pillow's libjpeg is the reference to the last bit.
    return "jpg", with_exif(data, exif(o)) if o else data, upright(seen(data), o), " ".join(words)


def make_png(r, w, h, o):
    colour = int(r.choice(list(DEPTHS)))
    depth = int(r.choice(DEPTHS[colour]))
    top = (1 << depth) - 1
    raw = picture(r, w, h, CHANNELS[colour], top)
    plte = trns = None
    full = 65535 if depth == 16 else 255
    if colour == 3:
        plte = r.integers(0, 256, (top + 1, 3))
        want = plte[raw[..., 0]]
        if r.integers(2):
            opacity = r.integers(0, 256, int(r.integers(1, top + 2)))
            trns = opacity.astype(np.uint8).tobytes()
            want = np.dstack([want, np.concatenate([opacity, np.full(top + 1 - len(opacity), 255)])[raw[..., 0]]])
    else:
        want = raw * (255 // top) if depth < 8 else raw
        if colour in (0, 2) and r.integers(3) == 0:
            key = raw[r.integers(h), r.integers(w)]
            trns = key.astype(">u2").tobytes()
            want = np.dstack([want, np.where((raw == key).all(axis=2), 0, full)])
    behind = bool(r.integers(2))
    tag = chunk("eXIf", exif(o)) if o else b""
    interlace = int(r.integers(2))
    data = png(raw, depth, colour, interlace, [None, 0, 1, 2, 3, 4][int(r.integers(6))], plte=plte, trns=trns, level=int(r.choice([0, 1, 6, 9])),
               before=b"" if behind else tag, behind=tag if behind else b"", seed=int(r.integers(1 << 30)))
    want = want.astype(np.uint16 if depth == 16 else np.uint8)
    return "png", data, upright(want, o), f"colour type {colour}, {depth} bits, interlace {interlace}, eXIf {'behind' if behind else 'before'}"


def make_tiff(r, w, h, o):
    bits = int(r.choice([8, 8, 16]))
    top = (1 << bits) - 1
    photometric = int(r.choice([0, 1, 2, 2, 2, 5]))
    colours = {0: 1, 1: 1, 2: 3, 5: 4}[photometric]
    alpha = photometric != 5 and r.integers(3) == 0
    a = picture(r, w, h, colours + alpha, top).astype(np.uint16 if bits == 16 else np.uint8)
    want = a.copy()
    if photometric == 0:
        want[..., 0] = top - want[..., 0]
    if photometric == 5:
        ink = a.astype(np.float64)
        want = np.floor((top - ink[..., :3]) * (top - ink[..., 3:]) / top + 0.5).astype(a.dtype)
    tile = (int(r.choice([16, 32])), int(r.choice([16, 48]))) if r.integers(3) == 0 else None
    words = dict(planar=int(r.choice([1, 2])), order=str(r.choice(["<", ">"])), big=bool(r.integers(2)), compression=int(r.choice([1, 8, 32773])),
                 rows_per_strip=int(r.integers(1, 60)), tile=tile)
    data = tiff(a, photometric, extra=[2] if alpha else [], tags=[(274, 3, [o])] if o else [], **words)
    return "tif", data, upright(want, o), f"photometric {photometric}, {bits} bits, alpha {bool(alpha)}, {words}"


def make_webp(r, w, h, o):
    a = picture(r, w, h, int(r.choice([3, 3, 4])), 255).astype(np.uint8)
    lossless = bool(r.integers(2))
    ex = Image.Exif()
    ex[274] = o or 1
    data = encoded(a, "WEBP", lossless=lossless, quality=int(r.choice([30, 80, 100])), exact=True, exif=ex.tobytes())
    return "webp", data, upright(seen(data), o), f"lossless {lossless}"


def make_gif(r, w, h, o):
    a = picture(r, w, h, 3, 255).astype(np.uint8)
    data = encoded(Image.fromarray(a).quantize(int(r.integers(2, 257))), "GIF", interlace=int(r.integers(2)))
    return "gif", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), ""


def make_bmp(r, w, h, o):
    a = picture(r, w, h, 3, 255).astype(np.uint8)
    kind = int(r.integers(3))
    im = Image.fromarray(a)
    im = im if kind == 0 else im.convert("L") if kind == 1 else im.quantize(int(r.choice([2, 16, 200])))
    data = encoded(im, "BMP")
    return "bmp", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB" if kind != 1 else "L")), f"kind {kind}"


def make_pnm(r, w, h, o):
    channels, top = int(r.choice([1, 3])), int(r.choice([255, 65535]))
    a = picture(r, w, h, channels, top)
    head = b"P%d\n%d %d\n%d\n" % (5 if channels == 1 else 6, w, h, top)
    return "pnm", head + a.astype(">u2" if top > 255 else np.uint8).tobytes(), a.astype(np.uint16 if top > 255 else np.uint8), f"{channels} of {top}"


def make_jp2(r, w, h, o):
    w, h = max(w, 8), max(h, 8)
    a = picture(r, w, h, int(r.choice([1, 3])), 255).astype(np.uint8)
    a = a[..., 0] if a.shape[2] == 1 else a
    data = encoded(a, "JPEG2000", irreversible=bool(r.integers(2)), no_jp2=bool(r.integers(2)), quality_mode="dB", quality_layers=[60])
    return "jp2", data, seen(data), ""


MAKERS = [(make_jpeg, 35), (make_png, 30), (make_tiff, 15), (make_webp, 6), (make_gif, 4), (make_bmp, 4), (make_pnm, 4), (make_jp2, 2)]
MEMBERS = [m for m, weight in MAKERS for _ in range(weight)]
# Largest difference that a right decode may have. JPEG 2000: OpenJPEG in two builds; WebP with alpha: colours under it.
LARGEST = {"jp2": 1}


def make(seed, i):
    r = np.random.default_rng([seed, i])
    maker = MEMBERS[int(r.integers(len(MEMBERS)))]
    w, h = size(r)
    o = int(r.choice([0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]))
    ext, data, want, words = maker(r, w, h, o)
    want = want[..., 0] if want.ndim == 3 and want.shape[2] == 1 else want
    return ext, data, want, f"file {i}: {ext}, {words}, orientation {o}"


class Agreement:
    """How far apart two decoders are over all files of a format."""

    def __init__(self):
        self.files = self.equal = self.samples = 0
        self.largest = self.sum = self.squares = 0.0

    def add(self, d):
        self.files += 1
        self.equal += not d.any()
        self.samples += d.size
        self.largest = max(self.largest, d.max())
        self.sum += d.sum()
        self.squares += (d * d).sum()

    def __str__(self):
        mse = self.squares / max(1, self.samples)
        decibel = "exact" if mse == 0 else f"{10 * np.log10(255 * 255 / mse):.1f} dB"
        return f"{self.files:5d} files {self.equal:5d} equal   largest {self.largest:5.2f}   mean {self.sum / max(1, self.samples):.5f}   {decibel}"


def difference(got, want):
    """In levels of 255; None where the shapes differ."""
    got = without_alpha(got, True)
    want = without_alpha(want, True)
    if got.ndim == 3 and want.ndim == 2 and got.shape[2] == 3 and (got[..., 0] == got[..., 2]).all():
        got = got[..., 0]
    if got.ndim == 3 and want.ndim == 3 and (got.shape[2], want.shape[2]) == (4, 2):
        got = got[..., [0, 3]]
    if got.shape != want.shape or got.dtype != want.dtype:
        return None
    d = np.abs(got.astype(np.float64) - want) * (255.0 / np.iinfo(want.dtype).max)
    if want.ndim == 3 and want.shape[2] in (2, 4):
        d[..., :-1][want[..., -1] == 0] = 0
    return d


def run_batch(first, n, seed, against, wrong):
    files = [make(seed, first + i) for i in range(n)]
    for i, (ext, data, _, _) in enumerate(files):
        write(f"src/{i:04d}.{ext}", data)
    pack("src", "-o", "out", "--codec", "raw", "--alpha", "keep", "--image", "*", "--no-detect", "--shards", "1", "--classes", "none",
         "--max-rejects", "100%", code=None)
    refused, data = rejects("out"), members("out")
    fields = {f["path"]: data[f"{s['key']}.{f['name']}"] for s in ls("out") for f in s["fields"] if f["path"]}
    for i, (ext, raw, want, words) in enumerate(files):
        path = f"{i:04d}.{ext}"
        if path in refused:
            wrong.append(f"{words}: rejected: {refused[path]['class']}: {refused[path]['reason']}")
            continue
        got = np.load(io.BytesIO(fields[path]))
        got = got[..., 0] if got.shape[2] == 1 else got
        d = difference(got, want)
        if d is None or d.max() > LARGEST.get(ext, 0):
            wrong.append(f"{words}: " + (f"{got.dtype} {got.shape} for {want.dtype} {want.shape}" if d is None else f"differs by {d.max():.2f}"))
        if d is not None:
            against["Pillow and the encoder", ext].add(d)
        if ext in ("jpg", "png", "pnm") and _vips.lib is not None and "behind" not in words:
            try:
                d = difference(_vips.read(raw), want)
            except ValueError:
                d = None
            if d is None:
                against["libvips", ext].largest = max(against["libvips", ext].largest, 0)
            else:
                against["libvips", ext].add(d)
    shutil.rmtree("src")
    shutil.rmtree("out")


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    folder = tempfile.mkdtemp(prefix="slimset-random-")
    os.chdir(folder)
    against, wrong = collections.defaultdict(Agreement), []
    for first in range(0, n, BATCH):
        run_batch(first, min(BATCH, n - first), seed, against, wrong)
    print(f"seed {seed}, {n} files")
    for (judge, ext), sum_ in sorted(against.items()):
        print(f"{judge:24s} {ext:5s}{sum_}")
        good = sum_.largest <= (LARGEST.get(ext, 0) if judge != "libvips" else 3)
        report(f"{ext} agrees with {judge}", None if good else "too far apart")
    for text in wrong[:20]:
        print("  ", text)
    report(f"{n} random files, seed {seed}", f"{len(wrong)} are wrong; each again: random_files.py {n} {seed}" if wrong else None)
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if _table.failed else 0)


if __name__ == "__main__":
    main()
