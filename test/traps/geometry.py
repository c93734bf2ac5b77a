# SPDX-License-Identifier: Apache-2.0
"""Groups F and G: sizes, filters, generations; and masks, whose values must come out as they went in."""
import io
import os

import numpy as np
from PIL import Image

from _table import main, report, stored
from _make import encoded, exif, gradient, jpeg, png, seen, tiff, with_exif
from _frame import ls, pack, psnr, run, write


def check(name, good, detail=""):
    report(name, None if good else detail or "not so")


def packed(folder, out, *words, code=0):
    """{source path: (picture, record, bytes)}"""
    pack(folder, "-o", out, "--classes", "none", "--shards", "1", *words, code=code)
    return {p: (seen(d) if f["format"] in ("png", "jpeg") else None, f, d) for p, (d, f) in stored(out).items()}


def fractal(h, w, seed=3):
    """1/f noise: as much detail at every scale as a photograph."""
    r = np.random.default_rng(seed)
    f = np.hypot(np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None])
    f[0, 0] = 1
    planes = []
    for _ in range(3):
        s = (r.normal(size=f.shape) + 1j * r.normal(size=f.shape)) / f
        s[0, 0] = 0
        planes.append(np.fft.irfft2(s, (h, w)))
    a = np.stack([planes[0] + .3 * p for p in planes], -1)
    return np.clip((a - a.mean()) / a.std() * 50 + 128, 0, 255).astype(np.uint8)


def filters():
    y, x = np.mgrid[:2048, :2048] - 1024
    zone = np.rint(127.5 + 127.5 * np.cos(np.pi * (x * x + y * y) / 2048)).astype(np.uint8)
    write("zone/a.png", encoded(zone, "PNG"))
    std = packed("zone", "z", "--resize", "256", "--codec", "png", "--image", "*")["a.png"][0].std()
    check("F01 a zone plate has no moire", std < 14, f"std {std:.1f}")
    a = fractal(1024, 1024)
    write("photo/p.png", encoded(a, "PNG"))
    j = jpeg(a, quality=95, subsampling=2)
    write("photo/j.jpg", j)
    for target in (512, 384, 256, 200, 128):
        got = packed("photo", f"p{target}", "--resize", str(target), "--codec", "png", "--image", "*")
        small = lambda im: np.asarray(Image.fromarray(im).resize((target, target), Image.LANCZOS))
        from_png, from_jpeg = psnr(got["p.png"][0], small(a)), psnr(got["j.jpg"][0], small(seen(j)))
        print(f"   to {target}: PNG {from_png:.1f} dB, JPEG {from_jpeg:.1f} dB against Pillow's Lanczos")
        check(f"F02 1024 to {target} is Pillow's Lanczos", from_png >= 50, from_png)
        check(f"F11 scaled decode of a JPEG to {target} costs nothing", from_jpeg >= 42, from_jpeg)
    checker = ((np.add.outer(np.arange(64), np.arange(64)) & 1) * 255).astype(np.uint8)
    write("checker/a.png", encoded(checker, "PNG"))
    mean = packed("checker", "c", "--resize", "16", "--codec", "png", "--image", "*")["a.png"][0].astype(int)[2:-2, 2:-2]
    check("F04 the filter works on the numbers as stored", np.abs(mean - 127.5).max() <= 1.5, mean)
    ramp = np.tile(np.arange(64, dtype=np.float64) * 3 + 20, (8, 1)).astype(np.uint8)
    write("ramp/a.png", encoded(ramp, "PNG"))
    for w, words, row in ((24, ["--resize", "exact:24x8"], "F08"), (160, ["--resize", "exact:160x8", "--upscale"], "F07")):
        got = packed("ramp", f"r{w}", *words, "--codec", "png", "--image", "*")["a.png"][0].astype(float)
        ideal = ((np.arange(w) + 0.5) * 64 / w - 0.5) * 3 + 20
        inside = slice(w // 8, -w // 8)  # half a level is rounding
        shift = np.abs(got.mean(axis=0)[inside] - ideal[inside])
        check(f"{row} a ramp of 64 to {w} does not move", shift.mean() <= 0.51, shift.mean())


def sizes():
    r = np.random.default_rng(8)
    pairs = [(int(r.integers(1, 900)), int(r.integers(1, 900))) for _ in range(60)] + [(1000, 500), (10000, 300), (300, 200), (1, 1), (667, 1735)]
    for i, (w, h) in enumerate(pairs):
        flat = np.full((h, w), 9, np.uint8)
        write(f"s/{i}j.jpg", jpeg(flat))
        write(f"s/{i}p.png", encoded(flat, "PNG", compress_level=1))
        write(f"s/{i}w.webp", encoded(np.dstack([flat] * 3), "WEBP", quality=1, method=0))
        write(f"s/{i}t.tif", encoded(flat, "TIFF", compression="packbits"))
    for mode, scale in (("long:512", lambda w, h: 512 / max(w, h)), ("short:96", lambda w, h: 96 / min(w, h)), ("scale:0.37", lambda w, h: 0.37)):
        got = packed("s", "s-" + mode.replace(":", ""), "--resize", mode, "--codec", "png", "--image", "*")
        bad = []
        for i, (w, h) in enumerate(pairs):
            s = min(1.0, scale(w, h))
            want = tuple(max(1, int(np.floor(v * s + 0.5))) for v in (w, h))
            found = {k: (got[f"{i}{k}"][1]["width"], got[f"{i}{k}"][1]["height"]) for k in ("j.jpg", "p.png", "w.webp", "t.tif")}
            if set(found.values()) != {want}:
                bad.append((w, h, want, found))
        check(f"F03 {mode}: one size for a JPEG, its PNG, WebP and TIFF twin ({len(pairs)} pictures)", not bad, bad[:3])
        by_size = {(w, h): (got[f"{i}p.png"][1]["width"], got[f"{i}p.png"][1]["height"]) for i, (w, h) in enumerate(pairs)}
        if mode == "long:512":
            check("F06 a small picture is not enlarged", by_size[300, 200] == (300, 200) and by_size[1, 1] == (1, 1), by_size)
            check("F09 proportions stay", by_size[1000, 500] == (512, 256), by_size[1000, 500])
            check("F10 the long side of a panorama", by_size[10000, 300] == (512, 15), by_size[10000, 300])
        if mode == "short:96":
            check("F10 the short side of a panorama", by_size[10000, 300] == (3200, 96), by_size[10000, 300])


def generations():
    a = fractal(200, 300)
    small = with_exif(jpeg(a, quality=90), exif(1))
    write("g/small.jpg", small)
    write("g/big.jpg", jpeg(fractal(400, 600), quality=90, subsampling=2))
    got = packed("g", "one", "--resize", "300")
    check("F05 what is small enough is not encoded again", "copied" in got["small.jpg"][1]["notes"] and
          np.array_equal(got["small.jpg"][0], seen(small)), got["small.jpg"][1])
    sof = got["big.jpg"][2].index(b"\xff\xc0")
    check("F12 JPEG is baseline 4:2:0 by default", got["big.jpg"][2][sof + 11] == 0x22 and got["big.jpg"][1]["quality"] == 90)
    meta = run("ls", "one", "--meta", "--json", code=0).out
    check("F12 quality and chroma are in the index", "quality" in meta and "subsampling" in meta, meta[:600])
    for n, (words, factor) in enumerate(((["--subsampling", "444"], 0x11), (["--subsampling", "422"], 0x21))):
        data = packed("g", f"sub{n}", "--resize", "300", *words)["big.jpg"][2]
        check(f"F12 {words[1]} as asked", data[data.index(b"\xff\xc0") + 11] == factor)
    for p, (_, _, data) in got.items():
        write(f"again/{p}", data)
    second = packed("again", "two", "--resize", "300")
    check("F13 a second run adds no generation", all(second[p][2] == got[p][2] for p in got))
    p = pack("g", "-o", "one", "--resize", "200", "--classes", "none", "--shards", "1", code=None)
    check("F14 other options on a finished dataset are refused", p.returncode == 2 and "--force" in p.err, p.err[-300:])
    low = jpeg(a, quality=60)
    write("n/a.jpg", low)
    got = packed("n", "n5", "--codec", "jpeg", "--quality", "95", "--reencode", "all")
    check("N05 what grows as --reencode all asks is counted", len(got["a.jpg"][2]) > len(low) and "not-smaller" in got["a.jpg"][1]["notes"],
          got["a.jpg"][1])
    got = packed("n", "n6", "--codec", "jpeg", "--quality", "95")
    check("N05 nothing grows unasked", len(got["a.jpg"][2]) <= len(low) and got["a.jpg"][1]["quality"] in (None, 0), got["a.jpg"][1])


def nearest(a, w, h):
    """floor((i + 0.5) * W / T) in integers."""
    H, W = a.shape[:2]
    return a[((2 * np.arange(h) + 1) * H // (2 * h))[:, None], ((2 * np.arange(w) + 1) * W // (2 * w))[None]]


def masks():
    m = np.zeros((64, 64), np.uint8)
    m[:, 16:32], m[:, 32:48], m[:, 48:], m[30:34] = 1, 15, 255, 255
    palette = np.random.default_rng(1).integers(0, 256, (256, 3))
    ids = (np.arange(64 * 64) * 7 % 20000).astype(np.uint16).reshape(64, 64)
    rgb = np.stack([m, (m.astype(int) * 3 % 256).astype(np.uint8), np.roll(m, 5, 1)], -1)
    thin = np.zeros((64, 64), np.uint8)
    thin[:, 20], thin[:, 21] = 7, 9
    files = {"voc": (png(m, 8, 3, plte=palette), m), "gray": (png(m), m), "ids": (png(ids, 16), ids), "rgb": (png(rgb), rgb),
             "thin": (png(thin), thin), "tiff": (tiff(m, 1), m), "ids16tif": (tiff(ids, 1), ids)}
    for n, (data, _) in files.items():
        write(f"m/{n}.{'tif' if 'ti' in n else 'png'}", data)
    for target in (64, 33, 32, 21, 5):
        pack("m", "-o", f"m{target}", "--resize", str(target), "--mask", "*", "--classes", "none", code=0)
        out = {p.split(".")[0]: (d, f) for p, (d, f) in stored(f"m{target}").items()}
        for n, (_, a) in files.items():
            want = nearest(a, target, target)
            got = seen(out[n][0])
            row = {"voc": "G01", "ids": "G04", "ids16tif": "G04", "rgb": "G09"}.get(n, "G02")
            check(f"{row} {n} at {target}: every value from its place", np.array_equal(got, want) and got.shape == want.shape)
        im = Image.open(io.BytesIO(out["voc"][0]))
        check(f"G01 the palette stays at {target}", im.mode == "P" and im.getpalette()[:48] == palette.ravel()[:48].tolist())
        lost = bool(set(np.unique(thin)) - set(np.unique(nearest(thin, target, target))))
        check(f"G08 classes that vanish at {target} are said", lost == ("classes-lost" in out["thin"][1]["notes"]), out["thin"][1]["notes"])
    for w, t in ((64, 32), (3000, 224), (64, 48), (1000, 999), (777, 13)):
        write(f"c{w}/{t}.png", png(np.tile(np.arange(w, dtype=np.uint16), (2, 1)), 16))
        got = packed(f"c{w}", f"c{w}-{t}", "--resize", f"exact:{t}x2", "--mask", "*")[f"{t}.png"][0]
        check(f"G03 {w} to {t}: the middle of each pixel", np.array_equal(got[0], (2 * np.arange(t) + 1) * w // (2 * t)))
    write("lossy/mask/a.jpg", jpeg(m))
    write("lossy/mask/b.jpg", jpeg(m))
    p = pack("lossy", "-o", "l", "--resize", "32", "--codec", "jpeg", "--mask", "mask/*", "--classes", "none", code=None)
    kinds = {f["format"] for _, f in stored("l").values()} if p.returncode in (0, 3) else set()
    check("G05 a mask never becomes JPEG", kinds == {"png"}, p.err[-400:])
    n = len(np.unique(seen(jpeg(m))))
    check(f"G05 a mask that was JPEG: {n} values are said", n > 4 and "2 of 2 masks looked at were compressed with loss" in p.err and
          ("more than 64 values" if n > 64 else f"up to {n} values") in p.err and "majority" in p.err, p.err[-600:])
    write("clear/mask/a.png", png(m))
    p = pack("clear", "-o", "lc", "--resize", "32", "--mask", "mask/*", "--classes", "none", code=0)
    check("G05 no word where none was", "with loss" not in p.err, p.err[-400:])
    pair_sizes = [(481, 641), (333, 500), (127, 99), (640, 427)]
    for i, (w, h) in enumerate(pair_sizes):
        write(f"pair/{i}.jpg", jpeg(gradient(w, h), subsampling=2))
        write(f"pair/{i}.mask.png", png(np.zeros((h, w), np.uint8)))
    got = packed("pair", "pairs", "--resize", "long:100", "--mask", "*.mask.png")
    same = [(got[f"{i}.jpg"][1]["width"], got[f"{i}.jpg"][1]["height"]) == (got[f"{i}.mask.png"][1]["width"], got[f"{i}.mask.png"][1]["height"])
            for i in range(4)]
    check("G06 image and mask come out equally large", all(same), same)
    write("unequal/a.jpg", jpeg(gradient(80, 60)))
    write("unequal/a.mask.png", png(np.zeros((61, 80), np.uint8)))
    p = pack("unequal", "-o", "u", "--resize", "40", "--mask", "*.mask.png", "--classes", "none", code=3)
    check("G06 a mask of another size is a reject", "unequal/a.mask.png: pair" in p.err, p.err[-300:])


if __name__ == "__main__":
    main(filters, sizes, generations, masks)
