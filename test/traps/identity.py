# SPDX-License-Identifier: Apache-2.0
"""Group C: what a file is, whatever it is called; several pictures in one file. Of B09 the formats made of boxes."""
import io
import shutil
import struct
import subprocess

import numpy as np
from PIL import Image

import _vips
from _table import Case, main, run_table
from _make import bmp, encoded, gradient, jpeg, png, seen, tiff, vips
from _frame import write

GRAD = gradient(64, 48, 1)
FRAMES = [np.full((40, 60, 3), v, np.uint8) for v in (10, 120, 240)]


def names():
    a = jpeg(GRAD, quality=100)
    for ext, data, want in (("JPEG", png(GRAD), GRAD), ("png", a, seen(a)), ("jpg", encoded(GRAD, "WEBP", lossless=True), GRAD),
                            ("jpg", encoded(Image.fromarray(GRAD).quantize(200), "GIF"), None), ("png", tiff(GRAD, 2), GRAD),
                            ("tif", encoded(GRAD, "BMP"), GRAD), ("bmp", encoded(GRAD, "PPM"), GRAD), ("xyz", png(GRAD), GRAD)):
        want = seen(data) if want is None else want
        if want.ndim == 2:
            want = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        kind = Image.open(io.BytesIO(data)).format
        yield Case("C01", f"{kind} called .{ext}", ext, data, want)
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    for name, data, reject in (
            ("no bytes", b"", "empty"), ("one byte", b"\xff", "unknown-format"), ("an HTML page", b"<!DOCTYPE html><html>404</html>", "html"),
            ("an HTML page behind blanks", b"\n\n  <html lang=en><body>", "html"), ("an LFS pointer", lfs, "lfs-pointer"),
            ("text", b"hello\n", "unknown-format"), ("zeros", bytes(5000), "unknown-format"),
            ("a server's JSON", b'{"error": "rate limit"}', "unknown-format")):
        for ext in ("jpg", "png"):
            yield Case("C02", f"{name} called .{ext}", ext, data, reject=reject)
    svg = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="50" height="40"><rect width="50" height="40"/></svg>'
    for name, data, reject in (("SVG", svg, "not-allowed"), ("SVG behind a comment", b"<!-- x -->\n" + svg[21:], "not-allowed"),
                               ("PDF", b"%PDF-1.4\n1 0 obj\n", "not-allowed"), ("PostScript", b"%!PS-Adobe-3.0\n", "not-allowed"),
                               ("MVG", b"push graphic-context\nviewbox 0 0 9 9\n", "not-allowed"),
                               ("PSD", b"8BPS\0\1" + bytes(20), "unsupported"), ("an MP4", b"\0\0\0\x18ftypmp42" + bytes(40), "unsupported"),
                               ("a zip", b"PK\3\4" + bytes(60), "unknown-format")):
        yield Case("C03", f"{name} called .jpg", "jpg", data, reject=reject)


def frames():
    more = dict(save_all=True, append_images=[Image.fromarray(f) for f in FRAMES[1:]])
    first = Image.fromarray(FRAMES[0])
    gif = encoded(Image.fromarray(FRAMES[0][..., 0]), "GIF", save_all=True, append_images=[Image.fromarray(f[..., 0]) for f in FRAMES[1:]])
    for kind, ext, data in (("GIF", "gif", gif), ("WebP", "webp", encoded(first, "WEBP", lossless=True, **more)),
                            ("APNG", "png", encoded(first, "PNG", **more))):
        yield Case("C04", f"the first frame of an animated {kind}", ext, data, FRAMES[0], notes=("first-frame",))
    a = encoded(GRAD, "MPO", quality=100, subsampling=0, save_all=True, append_images=[Image.fromarray(255 - GRAD)])
    yield Case("C05", "MPO: the first picture", "jpg", a, seen(a), notes=("first-frame",), ways=("png", "raw", "jpeg", "webp", "half", "keep"))
    plain = jpeg(GRAD, quality=100)
    yield Case("C05", "two JPEGs in one file", "jpg", plain + plain, seen(plain), notes=("tail-bytes",))
    half = encoded(np.full((400, 400, 3), 10, np.uint8), "TIFF", save_all=True, append_images=[Image.fromarray(np.full((200, 200, 3), 240, np.uint8))])
    yield Case("C06", "the second page is half the size, and no pyramid", "tif", half, np.full((400, 400, 3), 10, np.uint8),
               notes=("first-frame",))
    yield Case("C06", "three pages", "tif", encoded(first, "TIFF", **more), FRAMES[0], notes=("first-frame",))
    yield Case("C06", "a page without end in its chain", "tif", loop(), GRAD, notes=("first-frame",))


def loop():
    """A TIFF whose directory names itself as the next one."""
    data = bytearray(tiff(GRAD, 2))
    at = struct.unpack("<I", data[4:8])[0]
    count = struct.unpack("<H", data[at:at + 2])[0]
    data[at + 2 + 12 * count:at + 6 + 12 * count] = struct.pack("<I", at)
    return bytes(data)


def small_formats():
    rgb = gradient(21, 13, 3)
    indexed = (np.arange(13)[:, None] * 3 + np.arange(21)[None]) % 16
    pal = np.random.default_rng(3).integers(0, 256, (256, 3)).astype(np.uint8)
    for k in (1, 4, 8):
        im = Image.fromarray((indexed % (1 << k)).astype(np.uint8), "P")
        im.putpalette(pal.tobytes())
        data = encoded(im, "BMP")
        yield Case("C07", f"BMP of Pillow, {k} bits", "bmp", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    data = encoded(rgb, "BMP")
    yield Case("C07", "BMP 24 bits", "bmp", data, rgb)
    flipped = bytearray(data)
    flipped[22:26] = struct.pack("<i", -13)
    yield Case("C07", "BMP 24 bits, top down", "bmp", bytes(flipped), rgb[::-1])
    w, h = 16, 8
    rle = (b"BM" + struct.pack("<IHHI", 54 + 8 + 6 * h + 2, 0, 0, 62) + struct.pack("<IiiHHIIiiII", 40, w, h, 1, 8, 1, 6 * h + 2, 0, 0, 2, 0) +
           b"\0\0\xff\0" + b"\xff\0\0\0" + b"".join(bytes([w // 2, 0, w // 2, 1, 0, 0]) for _ in range(h)) + b"\0\1")
    want = np.zeros((h, w, 3), np.uint8)
    want[:, :8], want[:, 8:] = (255, 0, 0), (0, 0, 255)
    yield Case("C07", "BMP run-length coded", "bmp", rle, want, vips="needs ImageMagick")
    yield Case("C07", "BMP run-length coded, cut", "bmp", rle[:-20], reject="truncated")
    deep = gradient(17, 9, 1, 3, 65535)
    body = deep.astype(">u2").tobytes()
    yield Case("C07", "PPM 16 bits", "ppm", b"P6\n17 9\n65535\n" + body, deep)
    for magic, a in (("P5", rgb[..., 0]), ("P6", rgb)):
        yield Case("C07", f"{magic}", "pnm", b"%s\n# a comment\n21 13\n255\n" % magic.encode() + np.ascontiguousarray(a).tobytes(), a)
        text = " ".join(map(str, np.ascontiguousarray(a).ravel())).encode()
        yield Case("C07", f"P{int(magic[1]) - 3} (text)", "pnm", b"P%d 21 13 255\n" % (int(magic[1]) - 3) + text, a, vips="does not read it from memory")
    bits = indexed % 2
    packed = b"".join(np.packbits(r.astype(np.uint8)).tobytes() for r in bits)
    yield Case("C07", "P4", "pbm", b"P4\n21 13\n" + packed, ((1 - bits) * 255).astype(np.uint8))
    yield Case("C07", "P1 (text)", "pbm", b"P1\n21 13\n" + " ".join(map(str, bits.ravel())).encode(), ((1 - bits) * 255).astype(np.uint8))
    yield Case("C07", "PPM cut", "ppm", b"P6\n17 9\n65535\n" + body[:-1], reject="truncated")


def palette_jp2(index, plte, bits=7, columns=3, mapping=None, components=1):
    """JPEG 2000 boxes around a codestream of indices."""
    box = lambda kind, body: struct.pack(">I4s", 8 + len(body), kind) + body
    code = encoded(index, "JPEG2000", no_jp2=True, irreversible=False)
    h, w = index.shape[:2]
    plte = np.asarray(plte, np.uint8)
    head = box(b"ihdr", struct.pack(">IIHBBBB", h, w, components, 7, 7, 0, 0)) + box(b"colr", b"\1\0\0" + struct.pack(">I", 16 if columns == 3 else 17))
    head += box(b"pclr", struct.pack(">HB", len(plte), columns) + bytes([bits] * columns) + plte.tobytes())
    head += box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, i) for i in range(columns)) if mapping is None else mapping)
    return box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", head) + box(b"jp2c", code)


def palettes():
    index = (np.arange(48)[:, None] // 5 * 7 + np.arange(64)[None] // 6).astype(np.uint8) % 50
    plte = np.random.default_rng(2).integers(0, 256, (50, 3)).astype(np.uint8)
    yield Case("C08", "JPEG 2000 with a palette", "jp2", palette_jp2(index, plte), plte[index])
    gray = plte[:, :1]
    yield Case("C08", "JPEG 2000 with a palette of gray", "jp2", palette_jp2(index, gray, columns=1), gray[index][..., 0])
    for name, data, reject in (("an index beyond it", palette_jp2(index, plte[:40]), "corrupt"), ("16 bits", palette_jp2(index, plte, bits=15), ("unsupported", "corrupt")),
                               ("no entries", palette_jp2(index, plte[:0]), "corrupt"),
                               ("an odd mapping", palette_jp2(index, plte, mapping=bytes([0, 0, 1, 2, 0, 0, 1, 1, 0, 0, 1, 0])), "unsupported")):
        yield Case("C08", f"JPEG 2000 with a palette, {name}", "jp2", data, reject=reject)


def animated_jxl():
    """C04: the first frame where libvips can hand it out, else a reject; never the last frame."""
    if shutil.which("cjxl") is None:
        print("skip C04 animated JPEG XL: no cjxl here (package libjxl-tools)")
        return
    write("anim.png", encoded(Image.fromarray(FRAMES[0]), "PNG", save_all=True, append_images=[Image.fromarray(f) for f in FRAMES[1:]]))
    subprocess.run(["cjxl", "-d", "0", "anim.png", "anim.jxl"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    data = open("anim.jxl", "rb").read()
    if _vips.pages(data):
        yield Case("C04", "the first frame of an animated JPEG XL", "jxl", data, FRAMES[0], notes=("first-frame",))
    else:
        yield Case("C04", "an animated JPEG XL, of which this libvips would give the last frame", "jxl", data, reject="unsupported",
                   ways=("png", "raw", "jpeg", "webp", "half"))


def boxes():
    """C08: formats of plug-ins, made by the vips program where it can."""
    write("a.png", encoded(GRAD, "PNG"))
    rgba = np.dstack([GRAD, gradient(64, 48, 2, 1)])
    write("a4.png", encoded(rgba, "PNG"))
    for kind, words in (("jxl", ("jxlsave", "--lossless")), ("jp2", ("jp2ksave", "--lossless", "--subsample-mode", "off")),
                        ("avif", ("heifsave", "--compression", "av1", "--Q", 98, "--subsample-mode", "off")),
                        ("heic", ("heifsave", "--compression", "hevc", "--Q", 98, "--subsample-mode", "off"))):
        for source, a in (("a.png", GRAD), ("a4.png", rgba)):
            if kind == "jp2" and a is rgba:
                continue  # libvips declares no alpha in it; vips_judge.py has the cases
            try:
                vips(words[0], source, f"a.{kind}", *words[1:])
            except Exception:
                print(f"skip C08 {kind}: libvips here cannot write it")
                break
            data = open(f"a.{kind}", "rb").read()
            name = f"{kind}{' with alpha' if a is rgba else ''}"
            yield Case("C08", name, kind, data, a, tol=0 if kind in ("jxl", "jp2") else 16, absent=("gamma",))
            at = data.find(b"ispe")
            if kind in ("avif", "heic"):
                yield Case("E05", f"{name} that says 60000 x 60000", kind, data[:at + 8] + struct.pack(">II", 60000, 60000) + data[at + 16:],
                           reject="too-many-pixels")
            at = data.find(b"colrnclx")
            if kind in ("avif", "heic") and at < 0:
                print(f"skip B09 {name}: libvips here writes no nclx box")
            elif kind in ("avif", "heic"):
                for transfer, curve in ((16, "PQ"), (18, "HLG"), (13, "sRGB")):
                    hdr = data[:at + 10] + struct.pack(">H", transfer) + data[at + 12:]
                    yield Case("B09", f"{name} that says {curve}", kind, hdr, a, tol=16, notes=("gamma",) if transfer != 13 else (),
                               absent=("gamma",) if transfer == 13 else ())
            yield Case("C08", f"{name}, cut to 60 %", kind, data[:len(data) * 6 // 10], reject=("truncated", "corrupt"))


def table():
    run_table([*names(), *frames(), *small_formats(), *boxes(), *palettes(), *animated_jxl()])


if __name__ == "__main__":
    main(table)
