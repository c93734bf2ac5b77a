# SPDX-License-Identifier: Apache-2.0
"""Group D: bit depths, palettes, alpha: every kind of PNG, and TIFF by bands, depth, layout and what it declares."""
import io
import itertools
import os
import random
import struct

import numpy as np
from PIL import Image

from _table import Case, main, report, run_table, stored
from _make import chunk, encoded, gradient, jpeg, png, seen, tiff
from _frame import pack, rejects, write
from png_judge import CHANNELS, DEPTHS

SIZE = (23, 17)


def png_samples(colour, depth, rng, w, h):
    """Raw samples, PLTE, tRNS and the picture they are."""
    ch, top = CHANNELS[colour], (1 << depth) - 1
    raw = (gradient(w, h, depth, ch, 65535).reshape(h, w, ch).astype(np.int64) * top + 32767) // 65535
    raw[::3, ::2] = rng.integers(0, top + 1, raw[::3, ::2].shape)
    if colour != 3:
        full = raw * (255 // top) if depth < 8 else raw
        return raw, None, full.astype(np.uint16 if depth == 16 else np.uint8)
    plte = rng.integers(0, 256, (top + 1, 3))
    return raw, plte, plte[raw[..., 0]].astype(np.uint8)


def every_png():
    """D05 and E10: every colour type, depth, interlace and filter."""
    rng = np.random.default_rng(1)
    names = {0: "gray", 2: "RGB", 3: "palette", 4: "gray and alpha", 6: "RGB and alpha"}
    for colour in DEPTHS:
        for depth in DEPTHS[colour]:
            for interlace in (0, 1):
                for filters in (None, 0, 1, 2, 3, 4):
                    raw, plte, want = png_samples(colour, depth, rng, *SIZE)
                    kind = "mixed filters" if filters is None else f"filter {filters}"
                    yield Case("E10" if interlace else "D05", f"{names[colour]} {depth} bits{' interlaced' if interlace else ''}, {kind}", "png",
                               png(raw, depth, colour, interlace, filters, plte=plte), want)
    for colour, depth in itertools.product((0, 2, 3), (1, 8, 16)):
        if depth not in DEPTHS[colour]:
            continue
        raw, plte, want = png_samples(colour, depth, rng, *SIZE)
        full = np.iinfo(want.dtype).max
        if colour == 3:
            opacity = rng.integers(0, 256, max(1, (1 << depth) // 2))
            alpha = np.concatenate([opacity, np.full((1 << depth) - len(opacity), 255)])[raw[..., 0]]
            trns = opacity.astype(np.uint8).tobytes()
        else:
            key = raw[5, 7]
            alpha = np.where((raw == key).all(axis=2), 0, full)
            trns = key.astype(">u2").tobytes()
        for interlace in (0, 1):
            yield Case("D09", f"tRNS colour type {colour}, {depth} bits, interlace {interlace}", "png",
                       png(raw, depth, colour, interlace, plte=plte, trns=trns), np.dstack([want, alpha.astype(want.dtype)]))
    for w, h in ((1, 1), (1, 9), (9, 1), (2, 3), (7, 8), (33, 1)):
        for interlace in (0, 1):
            a = gradient(w, h, 2)
            yield Case("E09", f"{w}x{h}, interlace {interlace}", "png", png(a, interlace=interlace), a)


def alpha():
    green = np.zeros((64, 64, 4), np.uint8)
    green[..., 1] = 255
    green[:, :31] = (255, 0, 0, 255)
    photo = gradient(120, 80, 4)
    yield Case("D06", "colour hidden under alpha", "png", png(green), green)
    yield Case("D07", "opaque alpha", "png", png(np.dstack([photo, np.full(photo.shape[:2], 255)])), photo)
    yield Case("D07", "its twin without alpha", "png", png(photo), photo)
    yield Case("D07", "opaque alpha of 16 bits", "png",
               png(np.dstack([photo.astype(np.int64) * 257, np.full(photo.shape[:2], 65535)]), 16), photo.astype(np.uint16) * 257)
    la = np.zeros((8, 8, 2), np.uint8)
    la[...] = (200, 128)
    yield Case("D08", "gray and alpha", "png", png(la), la)
    yield Case("D08", "gray and alpha in tiff", "tif", tiff(la, 1, extra=[2]), la)
    yield Case("D09", "palette with two opacities", "png",
               png(np.uint8([[0, 1, 2, 3]] * 2), 2, 3, plte=[255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255], trns=bytes([0, 128])),
               np.uint8([[[255, 0, 0, 0], [0, 255, 0, 128], [0, 0, 255, 255], [255, 255, 255, 255]]] * 2))
    yield Case("D09", "tRNS longer than the palette", "png",
               png(np.uint8([[0, 1]] * 2), 1, 3, plte=[255, 0, 0, 0, 255, 0], trns=bytes([7, 8, 9])),
               np.uint8([[[255, 0, 0, 7], [0, 255, 0, 8]]] * 2), notes=("warning",), vips="strict")
    a16 = np.zeros((8, 8, 4), np.uint16)
    a16[..., 0], a16[..., 3] = 65535, 32768
    yield Case("D10", "half-transparent at 16 bits", "png", png(a16, 16), a16)
    for ext, data in (("webp", encoded(green, "WEBP", lossless=True, exact=True)), ("tif", tiff(green, 2, extra=[2]))):
        yield Case("D06", f"colour hidden under alpha in {ext}", ext, data, green)
    gif = Image.fromarray(np.kron(np.uint8([[0, 1], [2, 0]]), np.ones((8, 8), np.uint8)), "P")
    gif.putpalette([9, 9, 9, 255, 0, 0, 0, 0, 255])
    data = encoded(gif, "GIF", transparency=0)
    yield Case("D09", "a GIF with a transparent colour", "gif", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")))


def depths():
    ramp = np.linspace(0, 65535, 64 * 256).astype(np.uint16).reshape(64, 256)
    steps = (np.arange(64 * 256) % 4000 + 500).astype(np.uint16).reshape(64, 256)
    yield Case("D01", "a ramp of 16 bits", "png", png(ramp, 16), ramp)
    yield Case("D01", "4000 values of depth", "png", png(steps, 16), steps, ways=("png", "raw", "jpeg", "webp", "keep"))
    rgb = np.stack([ramp, ramp[:, ::-1], ramp // 2], -1)
    yield Case("D02", "RGB of 16 bits", "png", png(rgb, 16), rgb)
    yield Case("D03", "float tiff", "tif", encoded(np.linspace(-1, 2, 64 * 48, dtype=np.float32).reshape(48, 64), "TIFF"), reject="float",
               ways=("png", "raw", "jpeg", "webp", "half"))
    yield Case("D04", "32-bit integers", "tif", encoded(np.arange(64 * 48, dtype=np.int32).reshape(48, 64), "TIFF"), reject="unsupported")
    white = np.repeat(np.uint8([[255], [0], [77]]), 8, 1)
    yield Case("D04", "white is zero", "tif", tiff(255 - white, 0), white)
    for bits in (1, 2, 4):
        values = (np.arange(13)[:, None] + np.arange(29)[None]) % (1 << bits)
        scaled = (values * (255 // ((1 << bits) - 1))).astype(np.uint8)
        yield Case("D04", f"tiff gray of {bits} bits", "tif", tiff(values.astype(np.uint8), 1, bits=bits), scaled)
        yield Case("D04", f"tiff gray of {bits} bits, white is zero", "tif", tiff(values.astype(np.uint8), 0, bits=bits), 255 - scaled)
    bw = Image.fromarray((gradient(80, 60, 1, 1) > 128)).convert("1")
    for how in ("group3", "group4", "tiff_ccitt"):
        yield Case("D04", f"fax {how}", "tif", encoded(bw, "TIFF", compression=how), np.asarray(bw.convert("L")))


def tiffs():
    """Bands, depth, planes, tiles, compression, byte order; every combination that is legal is either right or a named reject."""
    rng = np.random.default_rng(4)
    w, h = 37, 21

    def samples(s, bits):
        return gradient(w, h, s + bits, s, 65535 if bits == 16 else 255).reshape(h, w, s)

    for s, bits, planar, tile, compression in itertools.product((1, 3, 4), (8, 16), (1, 2), (None, (16, 16)), (1, 8, 32773)):
        if s == 1 and planar == 2:
            continue
        a = samples(s, bits)
        order = "<>"[int(rng.integers(2))]
        yield Case("D04", f"tiff {s} bands of {bits}, {'planar' if planar == 2 else 'chunky'}, {'tiles' if tile else 'strips'}, compression {compression}, "
                   + ("big" if order == ">" else "little") + "-endian", "tif",
                   tiff(a, 1 if s == 1 else 2, extra=[2] if s == 4 else (), planar=planar, tile=tile, compression=compression, order=order), a)
    for s in range(1, 9):
        for photometric, colours in ((1, 1), (2, 3)):
            if s < colours:
                continue
            a = samples(s, 8)
            extra = s - colours
            for kind, declared in (("undeclared", None), ("unspecified", 0), ("alpha", 2)):
                if extra == 0 and declared is not None:
                    continue
                name = f"{s} bands, {'gray' if colours == 1 else 'RGB'}, {extra} more {kind}" if extra else f"{s} bands, no more"
                data = tiff(a, photometric, extra=[] if declared is None else [declared] * extra)
                good = extra == 0 or (extra == 1 and declared == 2)
                yield Case("D04", name, "tif", data, **({"want": a} if good else {"reject": "bands", "ways": ("png", "raw", "jpeg", "webp", "half")}))
    rgba = gradient(w, h, 3, 4)
    pre = np.dstack([np.rint(rgba[..., :3].astype(float) * rgba[..., 3:] / 255), rgba[..., 3]]).astype(np.uint8)
    back = np.dstack([np.clip(np.floor(pre[..., :3].astype(float) * 255 / np.maximum(rgba[..., 3:], 1) + 0.5), 0, 255), rgba[..., 3]])
    yield Case("D04", "colours multiplied with alpha", "tif", tiff(pre, 2, extra=[1]), back.astype(np.uint8), tol=1)
    for tile in (None, (16, 16), (64, 32)):
        for big in (False, True):
            where = f"{'tiles of %d x %d' % tile if tile else 'strips'}{', BigTIFF' if big else ''}"
            la = gradient(w, h, 2, 2)
            yield Case("D04", f"gray and alpha in separate planes, {where}", "tif", tiff(la, 1, extra=[2], planar=2, tile=tile, big=big), la)
            yield Case("D04", f"colours multiplied with alpha in separate planes, {where}", "tif",
                       tiff(pre, 2, extra=[1], planar=2, tile=tile, big=big), back.astype(np.uint8), tol=1)
            inverted = np.dstack([255 - la[..., 0], la[..., 1]])
            yield Case("D04", f"gray and alpha in separate planes, white is zero, {where}", "tif",
                       tiff(inverted, 0, extra=[2], planar=2, tile=tile, big=big), la)
            cmyk = gradient(w, h, 3, 4)
            rgb = np.floor((255.0 - cmyk[..., :3]) * (255 - cmyk[..., 3:]) / 255 + 0.5).astype(np.uint8)
            yield Case("D04", f"CMYK in separate planes, {where}", "tif", tiff(cmyk, 5, planar=2, tile=tile, big=big), rgb, tol=1)
            yield Case("D04", f"5 bands in separate planes, {where}", "tif", tiff(gradient(w, h, 3, 5), 2, planar=2, tile=tile, big=big),
                       reject="bands", ways=("png", "raw", "jpeg", "webp", "half"))
    index = (np.arange(w * h).reshape(h, w) % 256).astype(np.uint8)
    colours = np.stack([index.astype(int) * (k + 3) % 256 for k in range(3)], -1).astype(np.uint8)
    table = [int(v) * (k + 3) % 256 * 257 for k in range(3) for v in range(256)]
    for big, tile, planar in itertools.product((False, True), (None, (16, 16)), (1, 2)):
        yield Case("D04", f"{'Big' if big else ''}TIFF palette, {'tiles' if tile else 'strips'}, planar {planar}", "tif",
                   tiff(index, 3, big=big, tile=tile, planar=planar, tags=[(320, 3, table)]), colours)
    photo = gradient(64, 48, 5)
    for how in ("jpeg", "tiff_lzw", "tiff_adobe_deflate", "packbits", "tiff_deflate"):
        data = encoded(photo, "TIFF", compression=how)
        yield Case("D04", f"tiff of Pillow, {how}", "tif", data, seen(data), tol=1 if how == "jpeg" else 0)
    yield Case("D04", "old-style JPEG in tiff", "tif", tiff(photo, 6, tags=[(259, 3, [6])]), reject="unsupported")
    yield Case("D04", "signed samples", "tif", tiff(samples(1, 8), 1, sample_format=2), reject="unsupported")
    yield Case("D04", "CIELAB", "tif", tiff(photo, 8), reject="unsupported")
    yield Case("D04", "samples that differ in bits", "tif", tiff(photo, 2, tags=[(258, 3, [8, 8, 16])]), reject="unsupported")


def table():
    run_table([*every_png()])


def alphas():
    run_table([*alpha(), *depths()])


def tiff_table():
    run_table([*tiffs()])


def labels():
    """D05: what is a label keeps its raw values, D01: what is depth its 16 bits; D01: 16 bits are never cut unasked."""
    rng = np.random.default_rng(6)
    for bits in (1, 2, 4):
        v = rng.integers(0, 1 << bits, (30, 41))
        write(f"src/mask/{bits}.png", png(v, bits))
        pal = png(v, bits, 3, plte=rng.integers(0, 256, (1 << bits, 3)))
        write(f"src/mask/p{bits}.png", pal)
    deep = (np.arange(64 * 64) * 7 % 20000).astype(np.uint16).reshape(64, 64)
    write("src/mask/ids.png", png(deep, 16))
    write("src/mask/ids.tif", tiff(deep, 1))
    write("src/depth/d.png", png(deep, 16))
    pack("src", "-o", "out", "--codec", "raw", "--mask", "mask/*", "--depth-map", "depth/*", "--classes", "none")
    got = {p: np.load(io.BytesIO(d)) for p, (d, _) in stored("out").items()}
    rng = np.random.default_rng(6)
    for bits in (1, 2, 4):
        v = rng.integers(0, 1 << bits, (30, 41))
        rng.integers(0, 256, (1 << bits, 3))
        for n in (f"mask/{bits}.png", f"mask/p{bits}.png"):
            report(f"D05 labels of {bits} bits stay raw: {n}", None if np.array_equal(got[n].squeeze(), v) else got[n].squeeze()[:3, :8])
    for n in ("mask/ids.png", "mask/ids.tif", "depth/d.png"):
        report(f"D01 16 bits of {n}", None if got[n].dtype == np.uint16 and np.array_equal(got[n].squeeze(), deep) else got[n].dtype)
    write("mix/a.png", png(deep, 16))
    write("mix/b.png", png(gradient(20, 20)))
    pack("mix", "-o", "refused", "--codec", "jpeg", "--image", "*", "--classes", "none", code=3)
    report("D01 16 bits become 8 only on request", None if {r["class"] for r in rejects("refused").values()} == {"depth"} else rejects("refused"))


if __name__ == "__main__":
    main(table, alphas, tiff_table, labels)
