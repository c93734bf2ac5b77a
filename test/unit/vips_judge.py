#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the libvips path and the BMP/PNM readers with Pillow, numpy and LittleCMS (through Pillow).

usage: vips_judge.py TEST_VIPS [WORKDIR]

TEST_VIPS is the program of test_vips.c; it is run with "judge" and answers one line per command. Files that
Pillow cannot write (HEIF, AVIF, JPEG XL, odd TIFFs) are made by the `vips` program or byte by byte
here. Prints "ok NAME" or "FAIL NAME" per case; exits 1 on any failure.
"""
import base64
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
from PIL import Image, ImageCms

GRAY, YCC, RGB, CMYK = 1, 2, 3, 4
FIRST_FRAME, WARNING, TAIL, EXPANDED = 1 << 13, 1 << 14, 1 << 15, 1 << 17
PROFILE_USED, PROFILE_BAD = 1 << 9, 1 << 23
ADOBE = "/usr/share/color/icc/compatibleWithAdobeRGB1998.icc"
failures = 0


class Judge:
    def __init__(self, program, work):
        self.work = work
        self.raw = os.path.join(work, "planes.raw")
        self.p = subprocess.Popen([program, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.PIPE)
        self.formats = self.p.stdout.readline().split()[2:]

    def ask(self, *words):
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError("the program ended at: " + " ".join(str(w) for w in words))
        return line.split()

    def file(self, data, name="in.bin"):
        path = os.path.join(self.work, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def header(self, data, fmt):
        r = self.ask("header", self.file(data), fmt)
        if r[0] != "header":
            return r
        keys = "w h orientation channels bits is_float alpha palette frames colour icc_bytes icc notes".split()
        return dict(zip(keys, map(int, r[1:])))

    def planes(self, r):
        w, h, colour, bits, alpha, n, notes = map(int, r[1:])
        a = np.fromfile(self.raw, np.uint16 if bits == 16 else np.uint8).reshape(n, h, w)
        return {"a": np.moveaxis(a, 0, 2), "colour": colour, "bits": bits, "alpha": alpha, "notes": notes}

    def decode(self, data, fmt, srgb=0):
        r = self.ask("decode", self.file(data), fmt, srgb, self.raw)
        return self.planes(r) if r[0] == "image" else r


def report(name, problem):
    global failures
    if problem:
        failures += 1
        print("  " + str(problem))
    print(("FAIL " if problem else "ok ") + name)


def differs(got, want, colour=None, bits=None, alpha=None, tol=0):
    """None when the decoded planes equal the array want within tol, else what is wrong."""
    if not isinstance(got, dict):
        return "answer: " + " ".join(got)
    want = np.asarray(want)
    if want.ndim == 2:
        want = want[:, :, None]
    if got["a"].shape != want.shape:
        return "shape %s, should be %s" % (got["a"].shape, want.shape)
    d = np.abs(got["a"].astype(np.int64) - want.astype(np.int64))
    if d.max() > tol:
        at = np.unravel_index(d.argmax(), d.shape)
        return "pixel %s is %s, should be %s" % (at, got["a"][at], want[at])
    for key, v in (("colour", colour), ("bits", bits), ("alpha", alpha)):
        if v is not None and got[key] != v:
            return "%s is %s, should be %s" % (key, got[key], v)
    return None


def rejected(got, *classes):
    if isinstance(got, dict):
        return "was accepted, should be rejected: " + "/".join(classes)
    if got[0] != "error" or got[1] != "1" or got[2] not in classes:
        return "answer: " + " ".join(got) + ", should be " + "/".join(classes)
    return None


def picture(w, h, bands, seed=1, dtype=np.uint8):
    """Smooth enough for lossy codecs, every pixel different enough to find a shift."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    top = np.iinfo(dtype).max
    out = [(0.5 + 0.45 * np.sin((x * (1 + c) + y * (2 + seed % 3)) / (9.0 + c) + c)) * top for c in range(bands)]
    a = np.stack(out, 2).astype(dtype)
    return a[:, :, 0] if bands == 1 else a


def noise(rng, h, w, bands, dtype=np.uint8):
    return rng.integers(0, int(np.iinfo(dtype).max) + 1, (h, w, bands)).astype(dtype)


def pil_bytes(im, fmt, **kw):
    b = io.BytesIO()
    im.save(b, fmt, **kw)
    return b.getvalue()


def vips(*args):
    subprocess.run(["vips"] + [str(a) for a in args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# ---- a TIFF writer of our own: any bands, depth, planar, tiles, byte order, compression ----

def packbits(row):
    out = bytearray()
    for i in range(0, len(row), 128):
        part = row[i:i + 128]
        out.append(len(part) - 1)
        out += part
    return bytes(out)


def pack_rows(a, bits, order):
    """a: h x w x s -> bytes per row."""
    h, w, s = a.shape
    flat = a.reshape(h, w * s)
    if bits >= 8:
        return [r.astype(r.dtype.newbyteorder(order)).tobytes() for r in flat]
    rows = []
    for r in flat:
        b = np.zeros((w * s, bits), np.uint8)
        for k in range(bits):
            b[:, k] = r >> (bits - 1 - k) & 1
        rows.append(np.packbits(b.ravel()).tobytes())
    return rows


def tiff(a, photometric, bits=None, extra=(), sample_format=None, planar=1, tile=None, rows_per_strip=7, order="<",
         big=False, compression=1, tags=(), pages=1, cut_strips=0):
    """A TIFF file around the h x w x s array a. tags: (tag, type, [values] or bytes) to add or to replace."""
    if a.ndim == 2:
        a = a[:, :, None]
    h, w, s = a.shape
    bits = bits or a.dtype.itemsize * 8
    planes = [a] if planar == 1 else [a[:, :, i:i + 1] for i in range(s)]
    chunks = []
    for p in planes:
        if tile:
            tw, th = tile
            for y in range(0, h, th):
                for x in range(0, w, tw):
                    block = np.zeros((th, tw, p.shape[2]), a.dtype)
                    part = p[y:y + th, x:x + tw]
                    block[:part.shape[0], :part.shape[1]] = part
                    chunks.append(pack_rows(block, bits, order))
        else:
            chunks += [pack_rows(p[y:y + rows_per_strip], bits, order) for y in range(0, h, rows_per_strip)]
    if compression == 32773:
        chunks = [b"".join(packbits(r) for r in c) for c in chunks]
    elif compression in (8, 32946):
        chunks = [zlib.compress(b"".join(c)) for c in chunks]
    else:
        chunks = [b"".join(c) for c in chunks]
    if cut_strips:
        chunks = chunks[:-cut_strips]
    e, word = order, 8 if big else 4
    out = bytearray((b"II" if e == "<" else b"MM") + (struct.pack(e + "HHHQ", 43, 8, 0, 0) if big else
                                                       struct.pack(e + "HI", 42, 0)))
    offsets = []
    for c in chunks:
        if len(out) % 2:
            out += b"\0"
        offsets.append(len(out))
        out += c
    off_tag, len_tag = (324, 325) if tile else (273, 279)
    entries = {256: (4, [w]), 257: (4, [h]), 258: (3, [bits] * s), 259: (3, [compression]), 262: (3, [photometric]),
               277: (3, [s]), 284: (3, [planar]), off_tag: (4, offsets), len_tag: (4, [len(c) for c in chunks])}
    if tile:
        entries[322], entries[323] = (4, [tile[0]]), (4, [tile[1]])
    else:
        entries[278] = (4, [rows_per_strip])
    if extra:
        entries[338] = (3, list(extra))
    if sample_format:
        entries[339] = (3, [sample_format] * s)
    for tag, kind, values in tags:
        if values is None:
            entries.pop(tag, None)
        else:
            entries[tag] = (kind, values)
    code = {1: "B", 3: "H", 4: "I", 7: "B", 16: "Q"}
    link = 8 if big else 4
    for page in range(pages):
        blobs = []
        for tag in sorted(entries):
            kind, values = entries[tag]
            blobs.append((tag, kind, len(values), values if isinstance(values, bytes) else
                          struct.pack(e + str(len(values)) + code[kind], *values)))
        places = []
        for tag, kind, count, blob in blobs:
            if len(blob) > word:
                if len(out) % 2:
                    out += b"\0"
                places.append(len(out))
                out += blob
            else:
                places.append(None)
        if len(out) % 2:
            out += b"\0"
        out[link:link + word] = struct.pack(e + ("Q" if big else "I"), len(out))
        out += struct.pack(e + ("Q" if big else "H"), len(blobs))
        for (tag, kind, count, blob), place in zip(blobs, places):
            out += struct.pack(e + ("HHQ" if big else "HHI"), tag, kind, count)
            out += blob.ljust(word, b"\0") if place is None else struct.pack(e + ("Q" if big else "I"), place)
        link = len(out)
        out += b"\0" * word
    return bytes(out)


def judge_tiff_random(j, n=120):
    rng = np.random.default_rng(7)
    problem = None
    for i in range(n):
        h, w, s = int(rng.integers(1, 40)), int(rng.integers(1, 70)), int(rng.integers(1, 9))
        bits = int(rng.choice([8, 16]))
        a = noise(rng, h, w, s, np.uint8 if bits == 8 else np.uint16)
        photometric = int(rng.choice([0, 1])) if s < 3 else int(rng.choice([0, 1, 2, 5]))
        if photometric == 5 and s < 4:
            photometric = 2
        colours = {0: 1, 1: 1, 2: 3, 5: 4}[photometric]
        extra = [int(rng.choice([0, 2])) for _ in range(s - colours)]
        kw = dict(planar=int(rng.choice([1, 2])), order=str(rng.choice(["<", ">"])), big=bool(rng.integers(0, 2)),
                  compression=int(rng.choice([1, 8, 32773])), rows_per_strip=int(rng.integers(1, 50)))
        if rng.integers(0, 3) == 0:
            kw["tile"] = (int(rng.choice([16, 32])), int(rng.choice([16, 48])))
        what = "case %d: %dx%dx%d bits %d photometric %d extra %s %s" % (i, w, h, s, bits, photometric, extra, kw)
        data = tiff(a, photometric, extra=extra, **kw)
        got = j.decode(data, "tiff")
        if s > colours + 1 or (s == colours + 1 and extra[0] == 0):
            head = j.header(data, "tiff")
            bad = rejected(got, "bands")
            if not bad and (head["channels"] != s or head["alpha"]):
                bad = "header says %s" % head
        else:
            want = a.copy()
            top = 255 if bits == 8 else 65535
            if photometric == 0:
                want[:, :, 0] = top - want[:, :, 0]
            if photometric == 5:
                want[:, :, :4] = top - want[:, :, :4]
            bad = differs(got, want, {0: GRAY, 1: GRAY, 2: RGB, 5: CMYK}[photometric], bits, int(s > colours))
        if bad:
            problem = what + ": " + bad
            break
    report("tiff_random", problem)


def judge_tiff_small_bits(j):
    rng = np.random.default_rng(3)
    for bits in (1, 2, 4):
        a = rng.integers(0, 1 << bits, (13, 21, 1)).astype(np.uint8)
        top = (1 << bits) - 1
        for photometric in (0, 1):
            v = a if photometric else top - a
            got = j.decode(tiff(a, photometric, bits=bits), "tiff")
            bad = differs(got, v.astype(int) * 255 // top, GRAY, 8)
            if not bad and not got["notes"] & EXPANDED:
                bad = "note missing"
            report("tiff_%d_bit_photometric_%d" % (bits, photometric), bad)
    for bits in (1, 4, 8):
        n = 1 << bits
        a = rng.integers(0, n, (13, 21, 1)).astype(np.uint8)
        lut = rng.integers(0, 256, (n, 3))
        colour_map = list((lut.T * 257).ravel())
        data = tiff(a, 3, bits=bits, tags=[(320, 3, [int(v) for v in colour_map])])
        report("tiff_palette_%d_bit" % bits, differs(j.decode(data, "tiff"), lut[a[:, :, 0]], RGB, 8))
        gray = [int(v) for v in list(lut[:, 0] * 257) * 3]
        data = tiff(a, 3, bits=bits, tags=[(320, 3, gray)])
        report("tiff_gray_palette_%d_bit" % bits, differs(j.decode(data, "tiff"), lut[a[:, :, 0], 0], GRAY, 8))
        if j.header(data, "tiff")["colour"] != GRAY:
            report("tiff_gray_palette_header", "colour")


def judge_tiff_pillow(j):
    """Codecs that libtiff brings: Pillow writes and reads them."""
    im = Image.fromarray(picture(61, 47, 3))
    bw = Image.fromarray(picture(61, 47, 1)).convert("1")
    for codec in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "zstd"):
        try:
            data = pil_bytes(im, "TIFF", compression=codec)
        except (OSError, KeyError):
            continue
        report("tiff_" + codec, differs(j.decode(data, "tiff"), np.array(im), RGB, 8))
    data = pil_bytes(im, "TIFF", compression="jpeg")
    report("tiff_jpeg", differs(j.decode(data, "tiff"), np.array(Image.open(io.BytesIO(data)).convert("RGB")), RGB, 8,
                                tol=3))
    for codec in ("group3", "group4", "tiff_ccitt"):
        data = pil_bytes(bw, "TIFF", compression=codec)
        report("tiff_" + codec, differs(j.decode(data, "tiff"), np.array(bw).astype(int) * 255, GRAY, 8))
    # a fax strip whose end was overwritten: libtiff only logs it
    data = bytearray(pil_bytes(bw, "TIFF", compression="group4"))
    at = struct.unpack_from("<I", data, 4)[0]
    data[60:at - 40] = b"\0" * (at - 100)
    report("tiff_group4_damaged", rejected(j.decode(bytes(data), "tiff"), "corrupt", "truncated"))


def judge_tiff_classes(j):
    rng = np.random.default_rng(5)
    rgb, four = noise(rng, 9, 11, 3), noise(rng, 9, 11, 4)
    gray16 = noise(rng, 9, 11, 1, np.uint16)
    report("tiff_float", rejected(j.decode(tiff(rng.random((9, 11, 1)).astype(np.float32), 1, sample_format=3), "tiff"),
                                  "float"))
    head = j.header(tiff(rng.random((9, 11, 1)).astype(np.float32), 1, sample_format=3), "tiff")
    report("tiff_float_header", None if head["is_float"] and head["bits"] == 32 else head)
    report("tiff_half", rejected(j.decode(tiff(rng.random((9, 11, 1)).astype(np.float16), 1, sample_format=3), "tiff"),
                                 "float"))
    for dtype, kind in ((np.int8, 2), (np.int16, 2), (np.int32, 2), (np.uint32, 1)):
        a = rng.integers(0, 100, (9, 11, 1)).astype(dtype)
        report("tiff_" + np.dtype(dtype).name, rejected(j.decode(tiff(a, 1, sample_format=kind), "tiff"), "unsupported"))
    report("tiff_four_undeclared", rejected(j.decode(tiff(four, 2), "tiff"), "bands"))
    report("tiff_four_unspecified", rejected(j.decode(tiff(four, 2, extra=[0]), "tiff"), "bands"))
    report("tiff_rgba", differs(j.decode(tiff(four, 2, extra=[2]), "tiff"), four, RGB, 8, 1))
    report("tiff_planar_tiles", differs(j.decode(tiff(rgb, 2, planar=2, tile=(16, 16)), "tiff"), rgb, RGB, 8, 0))
    report("tiff_planar_gray_alpha", differs(j.decode(tiff(rgb[:, :, :2], 1, planar=2, extra=[2]), "tiff"), rgb[:, :, :2], GRAY, 8, 1))
    report("tiff_cielab", rejected(j.decode(tiff(rgb, 8), "tiff"), "unsupported"))
    report("tiff_ycbcr_raw", rejected(j.decode(tiff(rgb, 6), "tiff"), "unsupported"))
    report("tiff_old_jpeg", rejected(j.decode(tiff(rgb, 6, compression=6), "tiff"), "unsupported"))
    report("tiff_bad_codec", rejected(j.decode(tiff(rgb, 2, compression=12345), "tiff"), "unsupported"))
    report("tiff_inks", rejected(j.decode(tiff(four, 5, tags=[(332, 3, [2])]), "tiff"), "unsupported"))
    report("tiff_mixed_bits", rejected(j.decode(tiff(rgb, 2, tags=[(258, 3, [8, 16, 8])]), "tiff"), "unsupported"))
    report("tiff_12_bit", rejected(j.decode(tiff(gray16, 1, tags=[(258, 3, [12])]), "tiff"), "unsupported", "truncated"))
    report("tiff_few_strips", rejected(j.decode(tiff(rgb, 2, cut_strips=1), "tiff"), "corrupt"))
    report("tiff_bomb", rejected(j.decode(tiff(rgb, 2, tags=[(256, 4, [60000]), (257, 4, [60000])]), "tiff"),
                                 "too-many-pixels"))
    report("tiff_no_pixels", rejected(j.decode(tiff(rgb, 2, tags=[(256, 4, [0])]), "tiff"), "corrupt"))
    # premultiplied colour: as Pillow turns RGBa into RGBA
    alpha = rng.integers(1, 256, (9, 11, 1))
    pre = np.concatenate([(four[:, :, :3].astype(int) * alpha + 127) // 255, alpha], 2)
    want = np.concatenate([np.minimum((pre[:, :, :3] * 255 + alpha // 2) // alpha, 255), alpha], 2)
    report("tiff_associated", differs(j.decode(tiff(pre.astype(np.uint8), 2, extra=[1]), "tiff"), want, RGB, 8, 1, tol=1))
    data = tiff(pre.astype(np.uint8), 2, extra=[1])
    pil = np.array(Image.open(io.BytesIO(data)).convert("RGBA"))
    report("tiff_associated_pillow", differs(j.decode(data, "tiff"), pil, RGB, 8, 1, tol=1))
    wide = (pre * 257).astype(np.uint16)
    report("tiff_associated_16", differs(j.decode(tiff(wide, 2, extra=[1]), "tiff"), want * 257, RGB, 16, 1, tol=257))
    bad = None
    for o in range(10):
        data = tiff(rgb, 2, tags=[(274, 3, [o])])
        h = j.header(data, "tiff")
        bad = bad or (None if h["orientation"] == (o if 1 <= o <= 8 else 1) else h) or differs(j.decode(data, "tiff"), rgb)
    report("tiff_orientations", bad)
    got = j.decode(tiff(rgb, 2, tags=[(274, 3, [6])]), "tiff")
    report("tiff_orientation_not_applied", differs(got, rgb))
    data = tiff(rgb, 2, pages=3)
    h, got = j.header(data, "tiff"), j.decode(data, "tiff")
    report("tiff_pages", differs(got, rgb) or (None if h["frames"] == 3 and got["notes"] & FIRST_FRAME else h))
    # second page half the size of the first: not a pyramid level, page 0 counts
    b = io.BytesIO()
    Image.new("L", (300, 200), 10).save(b, "TIFF", save_all=True, append_images=[Image.new("L", (150, 100), 240)])
    report("tiff_half_page", differs(j.decode(b.getvalue(), "tiff"), np.full((200, 300), 10), GRAY))
    data = bytearray(tiff(rgb, 2))
    data[-4:] = struct.pack("<I", len(data) + 1000)  # the link to a second page leads nowhere
    report("tiff_lost_second_page", differs(j.decode(bytes(data), "tiff"), rgb, RGB, 8, 0))
    data = tiff(rgb, 2, tags=[(700, 7, b"x" * 50)])
    data = data.replace(struct.pack("<HHI", 700, 7, 50), struct.pack("<HHI", 700, 7, 50000))
    got = j.decode(data, "tiff")
    report("tiff_lost_xmp", differs(got, rgb, RGB, 8, 0) or (None if got["notes"] & WARNING else "no note"))


def judge_cut(j, name, data, fmt, step=1, complete_from=None):
    """No prefix of the file may decode; from complete_from on (only metadata is missing) it may."""
    r = j.ask("cut", j.file(data), fmt, step)
    bad = [c for c in r[1:] if not c.isdigit() or complete_from is None or int(c) < complete_from]
    report("cut_" + name, "accepted when cut to %s of %d bytes" % (" ".join(bad[:9]), len(data)) if bad else None)


def judge_flip(j, name, data, fmt, rounds=150):
    r = j.ask("flip", j.file(data), fmt, rounds)
    report("flip_" + name, None if r[0] == "flip" and r[2] == "0" else " ".join(r))


def judge_webp(j):
    a = picture(83, 57, 3)
    rgba = np.dstack([a, picture(83, 57, 1, 2)])
    data = pil_bytes(Image.fromarray(a), "WEBP", lossless=True)
    report("webp_lossless", differs(j.decode(data, "webp"), a, RGB, 8, 0))
    lossy = pil_bytes(Image.fromarray(a), "WEBP", quality=80)
    report("webp_lossy", differs(j.decode(lossy, "webp"), np.array(Image.open(io.BytesIO(lossy)).convert("RGB")), RGB, 8,
                                 tol=2))
    data4 = pil_bytes(Image.fromarray(rgba), "WEBP", lossless=True, exact=True)
    report("webp_alpha", differs(j.decode(data4, "webp"), rgba, RGB, 8, 1))
    frames = [Image.new("RGB", (60, 40), c) for c in ((200, 0, 0), (0, 200, 0), (0, 0, 200))]
    b = io.BytesIO()
    frames[0].save(b, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    h, got = j.header(b.getvalue(), "webp"), j.decode(b.getvalue(), "webp")
    report("webp_animated", differs(got, np.full((40, 60, 3), (200, 0, 0))) or
           (None if h["frames"] == 3 and got["notes"] & FIRST_FRAME else h))
    for o in (1, 3, 6, 8):
        exif = Image.Exif()
        exif[274] = o
        h = j.header(pil_bytes(Image.fromarray(a), "WEBP", lossless=True, exif=exif.tobytes()), "webp")
        if h["orientation"] != o:
            report("webp_orientation_%d" % o, h)
    for kind, fmt, order in ((4, "I", ">"), (1, "B3x", "<"), (3, "H2x", ">")):  # LONG, BYTE, SHORT
        block = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "IHHHI" + fmt, 8, 1, 274, kind, 1, 6)
        exif = b"Exif\0\0" + block + b"\0\0\0\0"
        h = j.header(pil_bytes(Image.fromarray(a), "WEBP", lossless=True, exif=exif), "webp")
        report("webp_exif_type_%d" % kind, None if h["orientation"] == 6 else h)
    got = j.decode(data + b"tail bytes", "webp")
    report("webp_tail", differs(got, a) or (None if got["notes"] & TAIL else "no note"))
    judge_cut(j, "webp_lossy", lossy, "webp")
    judge_cut(j, "webp_lossless", data, "webp", 3)
    judge_flip(j, "webp", lossy, "webp")
    judge_flip(j, "webp_lossless", data4, "webp")


def gif_two(data, flags_first, flags_second, screen=None):
    """The one-image GIF with its image twice; the graphic controls say transparent colour 5 where flags are 1."""
    at = data.index(b",\0\0\0\0\x3d\0\x2b\0")  # the descriptor of 61 x 43 pixels
    table = 13 + ((3 << ((data[10] & 7) + 1)) if data[10] & 0x80 else 0)
    size = struct.pack("<HH", *(screen or (61, 43)))
    control = lambda flags: b"!\xf9\4" + bytes([flags, 0, 0, 5, 0])
    image = data[at:-1]
    return b"GIF89a" + size + data[10:table] + control(flags_first) + image + control(flags_second) + image + b";"


def judge_gif_alpha(j, data, want):
    """Alpha comes from frame 0 alone, whatever the colours of later frames are."""
    later = gif_two(data, 0, 1)
    h = j.header(later, "gif")
    report("gif_later_frame_transparent", differs(j.decode(later, "gif"), want, RGB, 8, 0) or
           (None if h["frames"] == 2 and h["channels"] == 3 and not h["alpha"] else h))
    first = gif_two(data, 1, 0)
    rgba = np.array(Image.open(io.BytesIO(first)).convert("RGBA"))
    got = j.decode(first, "gif")
    bad = differs(got, np.dstack([got["a"][:, :, :3], rgba[:, :, 3]]), RGB, 8, 1) if isinstance(got, dict) else got
    if not bad and (rgba[:, :, 3].min() != 0 or not j.header(first, "gif")["alpha"]):
        bad = "nothing is transparent"
    opaque = rgba[:, :, 3] == 255
    report("gif_first_frame_transparent", bad or differs({"a": got["a"][opaque][:, None]}, rgba[opaque][:, None]))
    # frame 0 leaves the last 5 columns of the screen free: see-through where the file has transparency at all
    got = j.decode(gif_two(data, 0, 1, (66, 43)), "gif")
    whole = np.zeros((43, 66, 4), np.uint8)
    whole[:, :61] = np.dstack([want, np.full((43, 61), 255)])
    if isinstance(got, dict) and got["a"].shape == whole.shape:
        got["a"][:, 61:, :3] = 0  # no colour is promised there
    report("gif_first_frame_smaller", differs(got, whole, RGB, 8, 1))


def judge_gif(j):
    a = picture(61, 43, 3)
    data = pil_bytes(Image.fromarray(a).quantize(64), "GIF")
    want = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    report("gif", differs(j.decode(data, "gif"), want, RGB, 8, 0))
    report("gif_interlaced", differs(j.decode(pil_bytes(Image.fromarray(a).quantize(64), "GIF", interlace=1), "gif"),
                                     want, RGB, 8, 0))
    p = Image.fromarray(a).quantize(32)
    data_t = pil_bytes(p, "GIF", transparency=5)
    want_t = np.array(Image.open(io.BytesIO(data_t)).convert("RGBA"))
    got = j.decode(data_t, "gif")
    opaque = want_t[:, :, 3] == 255
    bad = "answer: %s" % got if not isinstance(got, dict) else None
    if not bad and (not np.array_equal(got["a"][:, :, 3], want_t[:, :, 3]) or
                    not np.array_equal(got["a"][opaque], want_t[opaque])):
        bad = "pixels"
    report("gif_transparency", bad)
    frames = [Image.fromarray(picture(60, 40, 1, i)).quantize(16) for i in range(3)]
    b = io.BytesIO()
    frames[0].save(b, "GIF", save_all=True, append_images=frames[1:])
    anim = b.getvalue()
    h, got = j.header(anim, "gif"), j.decode(anim, "gif")
    first = np.array(Image.open(io.BytesIO(anim)).convert("RGB"))
    report("gif_animated", differs(got, first) or
           (None if h["frames"] == 3 and got["notes"] & FIRST_FRAME else h))
    judge_gif_alpha(j, data, want)
    # all pixels of frame 0 are there before the end of the file: the rest may be missing
    at = data.rindex(b"\0;")
    judge_cut(j, "gif", data, "gif", 1, at - 4)
    judge_flip(j, "gif", data, "gif")
    at = data.index(b",\0\0\0\0\x3d\0\x2b\0") + 10  # the LZW code size behind the first descriptor
    for size in (0, 12, 32, 125, 255):
        if rejected(j.decode(data[:at] + bytes([size]) + data[at + 1:], "gif"), "corrupt"):
            report("gif_code_size_%d" % size, "accepted")
    got = j.decode(data[:-1], "gif")
    report("gif_no_trailer", differs(got, want) or (None if got["notes"] & WARNING else "no note"))


def without_cdef(jp2):
    """The file without the channel definitions that Pillow writes since 10.1."""
    at, box = jp2.index(b"jp2h") - 4, jp2.find(b"cdef", 0, jp2.index(b"jp2c")) - 4
    if box < 0:
        return jp2
    size, gone = struct.unpack_from(">I", jp2, at)[0], struct.unpack_from(">I", jp2, box)[0]
    return jp2[:at] + struct.pack(">I", size - gone) + jp2[at + 4:box] + jp2[box + gone:]


def with_cdef(jp2, alpha):
    """The file with a box that declares component number `alpha` as opacity."""
    cdef = struct.pack(">H", alpha + 1)
    cdef += b"".join(struct.pack(">HHH", i, 0, i + 1) for i in range(alpha)) + struct.pack(">HHH", alpha, 1, 0)
    box = struct.pack(">I4s", 8 + len(cdef), b"cdef") + cdef
    at = jp2.index(b"jp2h") - 4
    size = struct.unpack_from(">I", jp2, at)[0]
    return jp2[:at] + struct.pack(">I", size + len(box)) + jp2[at + 4:at + size] + box + jp2[at + size:]


# Losslessly coded: 32 x 32 pixels in four squares of one colour, by stored bits. Kept here because the
# encoder of some machines aborts at more than 8 bits, and others make 1020 of 10 bits out of an 8-bit white.
DEEP_AVIF = {
    10: (((1023, 1023, 1023), (0, 0, 0), (625, 312, 937), (1023, 0, 515)),
        "AAAAHGZ0eXBhdmlmAAAAAG1pZjFhdmlmbWlhZgAAAOptZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
        "ACJpbG9jAAAAAERAAAEAAQAAAAABDgABAAAAAAAAAEsAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABhdjAxAAAAAA5waXRt"
        "AAAAAAABAAAAamlwcnAAAABLaXBjbwAAAAxhdjFDgSBCAAAAABNjb2xybmNseAABAA0AAIAAAAAUaXNwZQAAAAAAAAAgAAAAIAAA"
        "ABBwaXhpAAAAAAMKCgoAAAAXaXBtYQAAAAAAAAABAAEEgQIDBAAAAFNtZGF0EgAKCDgRP/YwENACMj0QAACGxWGQjV+lXFKKUJSw"
        "TMxFhhyeFHqbJrixIDuiO7Vo7Yx01CmEL3mKJDSggdiIUj1MHWjaWhh25+d6"),
    12: (((4095, 4095, 4095), (0, 0, 0), (2500, 1250, 3750), (4095, 0, 2062)),
        "AAAAHGZ0eXBhdmlmAAAAAG1pZjFhdmlmbWlhZgAAAOptZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA"
        "ACJpbG9jAAAAAERAAAEAAQAAAAABDgABAAAAAAAAAFIAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABhdjAxAAAAAA5waXRt"
        "AAAAAAABAAAAamlwcnAAAABLaXBjbwAAAAxhdjFDgUBiAAAAABNjb2xybmNseAABAA0AAIAAAAAUaXNwZQAAAAAAAAAgAAAAIAAA"
        "ABBwaXhpAAAAAAMMDAwAAAAXaXBtYQAAAAAAAAABAAEEgQIDBAAAAFptZGF0EgAKCVgRP/Y0BDQAgDJDEAAAhsVhkGtqWlXFJnnW"
        "lLBMzBdwfynhR5l1VrixH/b647tWjte8yWApfIO4ESiQzaMsdiIIJyUwdaLGzWydtX+p6A=="),
}


def judge_deep_avif(j):
    for bits, (colours, text) in DEEP_AVIF.items():
        top = (1 << bits) - 1
        c = (np.array(colours).reshape(2, 2, 3) * 65535 + top // 2) // top  # white must be white
        want = c.repeat(16, axis=0).repeat(16, axis=1)
        report("avif_%d_bit" % bits, differs(j.decode(base64.b64decode(text), "avif"), want, RGB, 16, 0))


def judge_boxes(j):
    """HEIF, AVIF, JPEG XL, JPEG 2000 made by the vips program (absent: the cases are not run)."""
    a = picture(96, 64, 3)
    rgba = np.dstack([a, picture(96, 64, 1, 2)])
    path = lambda n: os.path.join(j.work, n)
    Image.fromarray(a).save(path("p.png"))
    Image.fromarray(rgba).save(path("p4.png"))
    Image.fromarray(a[:, :, 0]).save(path("p1.png"))
    a16 = picture(96, 64, 1, 1, np.uint16)
    Image.fromarray(a16).save(path("p16.png"))
    if shutil.which("vips") is None:
        print("  no vips program: HEIF, AVIF, JPEG XL not judged")
        return
    cases = []
    for fmt, op, ext, args in (("avif", "heifsave", "avif", ["--compression", "av1"]),
                               ("heif", "heifsave", "heic", ["--compression", "hevc"])):
        if fmt in j.formats:
            cases.append((fmt + "_rgb", fmt, op, ext, "p.png", args + ["--Q", 95, "--subsample-mode", "off"], a, 0, 12))
            cases.append((fmt + "_alpha", fmt, op, ext, "p4.png", args + ["--Q", 95, "--subsample-mode", "off"], rgba, 1, 12))
    if "jxl" in j.formats:
        cases.append(("jxl_lossless", "jxl", "jxlsave", "jxl", "p.png", ["--lossless"], a, 0, 0))
        cases.append(("jxl_alpha", "jxl", "jxlsave", "jxl", "p4.png", ["--lossless"], rgba, 1, 0))
        cases.append(("jxl_gray", "jxl", "jxlsave", "jxl", "p1.png", ["--lossless"], a[:, :, 0], 0, 0))
        cases.append(("jxl_16", "jxl", "jxlsave", "jxl", "p16.png", ["--lossless"], a16, 0, 0))
        cases.append(("jxl_lossy", "jxl", "jxlsave", "jxl", "p.png", ["--Q", 99, "--effort", 7], a, 0, 40))
    if "jp2" in j.formats:
        cases.append(("jp2_lossless", "jp2", "jp2ksave", "jp2", "p.png", ["--lossless", "--subsample-mode", "off"], a, 0, 0))
        cases.append(("jp2_gray", "jp2", "jp2ksave", "jp2", "p1.png", ["--lossless"], a[:, :, 0], 0, 0))
        cases.append(("jp2_16", "jp2", "jp2ksave", "jp2", "p16.png", ["--lossless"], a16, 0, 0))
        cases.append(("jp2_tiled", "jp2", "jp2ksave", "jp2", "p.png",
                      ["--lossless", "--tile-width", 32, "--tile-height", 16, "--subsample-mode", "off"], a, 0, 0))
    for name, fmt, op, ext, src, args, want, alpha, tol in cases:
        out = path(name + "." + ext)
        try:
            vips(op, path(src), out, *args)
        except subprocess.CalledProcessError:
            continue
        data = open(out, "rb").read()
        got = j.decode(data, fmt)
        bits = 16 if want.dtype == np.uint16 else 8
        report(name, differs(got, want, GRAY if want.ndim == 2 else RGB, bits, alpha, tol))
        if name in ("avif_rgb", "jxl_lossy", "jxl_lossless", "jp2_lossless", "jp2_tiled", "heif_rgb"):
            judge_cut(j, name, data, fmt, max(1, len(data) // 150))
            judge_flip(j, name, data, fmt, 60)
    if "jp2" in j.formats:
        # A fourth component is alpha only where a channel definition says so.
        data = without_cdef(pil_bytes(Image.fromarray(rgba), "JPEG2000", irreversible=False))
        report("jp2_four_undeclared", rejected(j.decode(data, "jp2"), "bands"))
        report("jp2_alpha", differs(j.decode(with_cdef(data, 3), "jp2"), rgba, RGB, 8, 1))
        report("jp2_two_cdef", rejected(j.decode(with_cdef(with_cdef(data, 3), 3), "jp2"), "corrupt"))
        la = np.dstack([a[:, :, 0], rgba[:, :, 3]])
        data = without_cdef(pil_bytes(Image.fromarray(la, "LA"), "JPEG2000", irreversible=False))
        report("jp2_gray_undeclared", rejected(j.decode(data, "jp2"), "bands"))
        report("jp2_gray_alpha", differs(j.decode(with_cdef(data, 1), "jp2"), la, GRAY, 8, 1))
        data = pil_bytes(Image.fromarray(a), "JPEG2000", irreversible=False, no_jp2=True)
        report("j2k_bare", differs(j.decode(data, "jp2"), a, RGB, 8, 0))
        judge_cut(j, "j2k_bare", data, "jp2", max(1, len(data) // 150))
    if "avif" in j.formats:
        # EXIF orientation in a HEIF is only informative
        exif = Image.Exif()
        exif[274] = 6
        Image.fromarray(a).save(path("o6.jpg"), exif=exif.tobytes(), quality=95)
        vips("heifsave", path("o6.jpg"), path("o6.avif"), "--compression", "av1")
        head = j.header(open(path("o6.avif"), "rb").read(), "avif")
        size = (head["w"], head["h"])
        report("avif_exif_orientation", None if head["orientation"] == 1 and size in ((96, 64), (64, 96)) else head)


# ---- colour ----

def judge_colour(j):
    rng = np.random.default_rng(9)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    path = lambda n: os.path.join(j.work, n)

    def convert(a, colour, alpha, icc):
        """Planes of a through vips_to_srgb with the profile icc."""
        if a.ndim == 2:
            a = a[:, :, None]
        np.moveaxis(a, 2, 0).tofile(path("in.raw"))
        with open(path("p.icc"), "wb") as f:
            f.write(icc)
        r = j.ask("colour", a.shape[1], a.shape[0], colour, alpha, a.dtype.itemsize * 8, path("in.raw"), path("p.icc"),
                  j.raw)
        return j.planes(r) if r[0] == "image" else r

    a = noise(rng, 32, 48, 3)
    got = convert(a, RGB, 0, srgb)
    report("icc_srgb_is_identity", differs(got, a, RGB, 8, 0, tol=2) or
           (None if got["notes"] == PROFILE_USED else got["notes"]))
    if os.path.exists(ADOBE):
        icc = open(ADOBE, "rb").read()
        patches = np.array([[(200, 30, 30), (30, 200, 30), (30, 30, 200), (128, 128, 128)]], np.uint8)
        cms = ImageCms.profileToProfile(Image.fromarray(patches), ImageCms.ImageCmsProfile(io.BytesIO(icc)),
                                        ImageCms.createProfile("sRGB"), renderingIntent=1)
        report("icc_adobe_littlecms", differs(convert(patches, RGB, 0, icc), np.array(cms), RGB, 8, tol=2))
        report("icc_adobe_values", differs(convert(patches, RGB, 0, icc),
                                           [[(233, 24, 24), (0, 201, 0), (24, 24, 205), (129, 129, 129)]], tol=3))
        wide = patches.astype(np.uint16) * 257
        report("icc_adobe_16", differs(convert(wide, RGB, 0, icc), np.array(cms), RGB, 8, tol=2))
        report("icc_16_noted", None if convert(wide, RGB, 0, icc)["notes"] == PROFILE_USED | 1 << 12 else "not scaled-8bit")
        rgba = np.dstack([patches, [[0, 77, 200, 255]]]).astype(np.uint8)
        report("icc_alpha", differs(convert(rgba, RGB, 1, icc), np.dstack([np.array(cms), rgba[:, :, 3]]), RGB, 8, 1, 2))
        wide4 = rgba.astype(np.uint16) * 257
        report("icc_alpha_16", differs(convert(wide4, RGB, 1, icc), np.dstack([np.array(cms), rgba[:, :, 3]]), RGB, 8, 1, 2))
        got = convert(a[:, :, 0], GRAY, 0, icc)
        report("icc_rgb_on_gray", differs(got, a[:, :, 0], GRAY, 8, tol=0) or
               (None if got["notes"] == PROFILE_BAD else got["notes"]))
        bad = bytearray(icc)
        bad[36:40] = b"xxxx"
        got = convert(a, RGB, 0, bytes(bad))
        report("icc_no_signature", differs(got, a) or (None if got["notes"] == PROFILE_BAD else got["notes"]))
        for cut in (0, 60, 131, 140, 300):
            got = convert(a, RGB, 0, icc[:cut])
            if differs(got, a) or got["notes"] != PROFILE_BAD:
                report("icc_cut_%d" % cut, differs(got, a) or got["notes"])
        # through a file: keep numbers, or convert
        data = pil_bytes(Image.fromarray(patches), "TIFF", icc_profile=icc)
        h = j.header(data, "tiff")
        report("icc_in_tiff", None if h["icc_bytes"] == len(icc) and h["icc"] else h)
        report("icc_tiff_keep", differs(j.decode(data, "tiff", 0), patches))
        report("icc_tiff_convert", differs(j.decode(data, "tiff", 1), np.array(cms), tol=2))
        data = pil_bytes(Image.fromarray(patches), "WEBP", lossless=True, icc_profile=icc)
        h = j.header(data, "webp")
        report("icc_in_webp", None if h["icc_bytes"] == len(icc) and h["icc"] else h)
        report("icc_webp_convert", differs(j.decode(data, "webp", 1), np.array(cms), tol=2))
    data = pil_bytes(Image.fromarray(a), "TIFF")
    report("untagged_unchanged", differs(j.decode(data, "tiff", 1), a))
    gray_path = "/usr/share/color/icc/ghostscript/default_gray.icc"
    if not os.path.exists(gray_path):
        gray_path = "/usr/share/color/icc/Gray.icc"
    if os.path.exists(gray_path):
        icc = open(gray_path, "rb").read()
        g = np.arange(256, dtype=np.uint8).reshape(8, 32)
        cms = ImageCms.profileToProfile(Image.fromarray(g), ImageCms.ImageCmsProfile(io.BytesIO(icc)),
                                        ImageCms.createProfile("sRGB"), renderingIntent=1, outputMode="RGB")
        report("icc_gray", differs(convert(g, GRAY, 0, icc), np.array(cms)[:, :, 1], GRAY, 8, tol=2))
        got = convert(a, RGB, 0, icc)
        report("icc_gray_on_rgb", differs(got, a) or (None if got["notes"] == PROFILE_BAD else got["notes"]))
    cmyk_path = "/usr/share/color/icc/ghostscript/default_cmyk.icc"
    if os.path.exists(cmyk_path):
        icc = open(cmyk_path, "rb").read()
        c = noise(rng, 16, 16, 4)
        cms = ImageCms.profileToProfile(Image.fromarray(255 - c, "CMYK"), ImageCms.ImageCmsProfile(io.BytesIO(icc)),
                                        ImageCms.createProfile("sRGB"), renderingIntent=1, outputMode="RGB")
        report("icc_cmyk", differs(convert(c, CMYK, 0, icc), np.array(cms), RGB, 8, tol=2))


def judge_webp_writer(j):
    path = lambda n: os.path.join(j.work, n)
    a = picture(67, 41, 4)
    a[:, :, 3] |= 1  # nothing fully transparent: its colour would be lost
    out = path("out.webp")
    for name, px, colour, alpha in (("rgb", a[:, :, :3], RGB, 0), ("gray", a[:, :, :1], GRAY, 0), ("rgba", a, RGB, 1),
                                    ("gray_alpha", a[:, :, [0, 3]], GRAY, 1)):
        np.moveaxis(px, 2, 0).tofile(path("in.raw"))
        want = px if colour == RGB else np.dstack([px[:, :, 0]] * 3 + ([px[:, :, 1]] if alpha else []))
        for lossless in (0, 1):
            r = j.ask("webp", 67, 41, colour, alpha, path("in.raw"), 95, lossless, out)
            im = np.array(Image.open(out))
            d = np.abs(im.astype(int) - want).max() if im.shape == want.shape else 999
            report("webp_write_%s%s" % (name, "_lossless" if lossless else ""),
                   None if r[0] == "bytes" and d <= (0 if lossless else 40) else "%s, %d off, %s" % (r, d, im.shape))
            first = open(out, "rb").read()
            j.ask("webp", 67, 41, colour, alpha, path("in.raw"), 95, lossless, out)
            if open(out, "rb").read() != first or b"EXIF" in first or b"ICCP" in first:
                report("webp_write_%s_same_bytes" % name, "differs")


# ---- BMP and PNM ----

def bmp(w, h, bits, rows, comp=0, palette=b"", header=40, masks=b"", top_down=False, body=None, used=0):
    """rows: bytes per row, top first. body: instead of rows."""
    if body is None:
        pad = [r + b"\0" * (-len(r) % 4) for r in rows]
        body = b"".join(pad if top_down else pad[::-1])
    if header == 12:
        dib = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        dib = struct.pack("<IiiHHIIiiII", header, w, -h if top_down else h, 1, bits, comp, len(body), 2835, 2835, used, 0)
        dib += masks if header == 40 else masks.ljust(header - 40, b"\0")
    off = 14 + len(dib) + len(palette)
    return b"BM" + struct.pack("<IHHI", off + len(body), 0, 0, off) + dib + palette + body


def rle8(a):
    """Row by row (bottom first), runs, absolute parts and a delta or two."""
    out = bytearray()
    for y in range(a.shape[0] - 1, -1, -1):
        row, x = a[y], 0
        while x < len(row):
            n = 1
            while x + n < len(row) and row[x + n] == row[x] and n < 255:
                n += 1
            if n >= 2 or len(row) - x < 3:
                out += bytes([n, row[x]])
            else:
                n = min(len(row) - x, 9)
                out += bytes([0, n]) + bytes(row[x:x + n]) + b"\0" * (n % 2)
            x += n
        out += b"\0\0" if y else b"\0\1"
    return bytes(out)


def judge_bmp(j):
    rng = np.random.default_rng(11)
    for w in (1, 2, 3, 31, 32, 33):
        a = noise(rng, 7, w, 3)
        data = pil_bytes(Image.fromarray(a), "BMP")
        report("bmp_24_%d" % w, differs(j.decode(data, "bmp"), a, RGB, 8, 0))
    for mode, colour in (("L", GRAY), ("1", GRAY), ("P", RGB)):
        im = Image.fromarray(picture(37, 19, 3)).convert(mode)
        data = pil_bytes(im, "BMP")
        want = np.array(im.convert("RGB" if mode == "P" else "L"))
        report("bmp_" + mode, differs(j.decode(data, "bmp"), want, colour, 8, 0))
        judge_flip(j, "bmp_" + mode, data, "bmp", 300)
    rgb = noise(rng, 9, 13, 3)
    rows = [r[:, ::-1].tobytes() for r in rgb]
    report("bmp_top_down", differs(j.decode(bmp(13, 9, 24, rows, top_down=True), "bmp"), rgb))
    for header in (12, 40, 52, 56, 64, 108, 124):
        report("bmp_header_%d" % header, differs(j.decode(bmp(13, 9, 24, rows, header=header), "bmp"), rgb, RGB, 8, 0))
    # palettes of every depth, against Pillow
    for bits in (1, 4, 8):
        n = 1 << bits
        lut = rng.integers(0, 256, (n, 4)).astype(np.uint8)
        idx = rng.integers(0, n, (9, 13)).astype(np.uint8)
        rows = pack_rows(idx[:, :, None], bits, "<")
        for top in (False, True):
            data = bmp(13, 9, bits, rows, palette=lut.tobytes(), top_down=top)
            pil = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
            report("bmp_palette_%d%s" % (bits, "_top_down" if top else ""),
                   differs(j.decode(data, "bmp"), pil, RGB, 8, 0) or differs(j.decode(data, "bmp"), lut[idx][:, :, 2::-1]))
        data = bmp(13, 9, bits, rows, palette=lut[:, :3].tobytes(), header=12)
        report("bmp_os2_palette_%d" % bits, differs(j.decode(data, "bmp"), lut[idx][:, :, 2::-1]))
    few = bmp(13, 9, 8, [bytes(13)] * 9, palette=lut[:3].tobytes(), used=3)
    report("bmp_short_palette", differs(j.decode(few, "bmp"), np.broadcast_to(lut[0, 2::-1], (9, 13, 3))))
    bad = bmp(13, 9, 8, [bytes([5] * 13)] * 9, palette=lut[:3].tobytes(), used=3)
    report("bmp_index_beyond_palette", rejected(j.decode(bad, "bmp"), "corrupt"))
    # 16 bits, masks
    v = rng.integers(0, 65536, (9, 13)).astype(np.uint16)
    rows = [r.astype("<u2").tobytes() for r in v]
    s5 = lambda x: (x.astype(int) * 255 + 15) // 31
    s6 = lambda x: (x.astype(int) * 255 + 31) // 63
    want = np.dstack([s5(v >> 10 & 31), s5(v >> 5 & 31), s5(v & 31)])
    report("bmp_555", differs(j.decode(bmp(13, 9, 16, rows), "bmp"), want, RGB, 8, 0))
    data565 = bmp(13, 9, 16, rows, comp=3, masks=struct.pack("<III", 0xf800, 0x7e0, 0x1f))
    report("bmp_565", differs(j.decode(data565, "bmp"), np.dstack([s5(v >> 11), s6(v >> 5 & 63), s5(v & 31)]), RGB, 8, 0))
    pil = np.array(Image.open(io.BytesIO(data565)).convert("RGB"))
    report("bmp_565_pillow", differs(j.decode(data565, "bmp"), pil, tol=1))
    u = rng.integers(0, 256, (9, 13, 4)).astype(np.uint8)
    rows = [r.tobytes() for r in u]
    report("bmp_32", differs(j.decode(bmp(13, 9, 32, rows), "bmp"), u[:, :, 2::-1], RGB, 8, 0))
    masks = struct.pack("<IIII", 0xff0000, 0xff00, 0xff, 0xff000000)
    bgra = u[:, :, [2, 1, 0, 3]]
    for header in (56, 108, 124):
        report("bmp_32_alpha_%d" % header,
               differs(j.decode(bmp(13, 9, 32, rows, comp=3, header=header, masks=masks), "bmp"), bgra, RGB, 8, 1))
    report("bmp_32_v5_no_bitfields",
           differs(j.decode(bmp(13, 9, 32, rows, comp=0, header=124, masks=masks), "bmp"), u[:, :, 2::-1], RGB, 8, 0))
    report("bmp_alphabitfields", differs(j.decode(bmp(13, 9, 32, rows, comp=6, masks=masks), "bmp"), bgra, RGB, 8, 1))
    d = rng.integers(0, 1 << 32, (9, 13)).astype(np.uint32)
    rows = [r.astype("<u4").tobytes() for r in d]
    ten = bmp(13, 9, 32, rows, comp=3, masks=struct.pack("<III", 0x3ff00000, 0xffc00, 0x3ff))
    s10 = lambda x: (x.astype(np.int64) * 65535 + 511) // 1023
    report("bmp_10_bit", differs(j.decode(ten, "bmp"), np.dstack([s10(d >> 20 & 1023), s10(d >> 10 & 1023), s10(d & 1023)]),
                                 RGB, 16, 0))
    for name, m in (("overlap", (0xff00, 0xff00, 0xff)), ("holes", (0xff00ff00, 0xff, 0)), ("zero", (0, 0, 0))):
        report("bmp_masks_" + name, rejected(j.decode(bmp(13, 9, 32, rows, comp=3, masks=struct.pack("<III", *m)), "bmp"),
                                             "corrupt"))
    # run lengths
    idx = np.repeat(rng.integers(0, 256, (11, 13)).astype(np.uint8), rng.integers(1, 6, 13), axis=1)
    h, w = idx.shape
    data = bmp(w, h, 8, None, comp=1, palette=(lut := rng.integers(0, 256, (256, 4)).astype(np.uint8)).tobytes(),
               body=rle8(idx))
    pil = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    report("bmp_rle8", differs(j.decode(data, "bmp"), lut[idx][:, :, 2::-1], RGB, 8, 0))
    report("bmp_rle8_pillow", differs(j.decode(data, "bmp"), pil))
    judge_cut(j, "bmp_rle8", data, "bmp", 1, len(data) - 2)
    judge_flip(j, "bmp_rle8", data, "bmp", 300)
    pal4 = lut[:16].tobytes()
    # 4 bits: run of 5 (alternating 1 2), absolute of 3 (3 4 5); next row by delta; end of bitmap
    body = bytes([5, 0x12, 0, 3, 0x34, 0x50, 0, 0, 0, 2, 2, 1, 2, 0x77, 0, 1])
    want = np.zeros((3, 8), int)
    want[2] = [1, 2, 1, 2, 1, 3, 4, 5]
    want[0, 2:4] = 7
    data = bmp(8, 3, 4, None, comp=2, palette=pal4, body=body)
    report("bmp_rle4_delta", differs(j.decode(data, "bmp"), lut[want][:, :, 2::-1], RGB, 8, 0))
    report("bmp_rle4_no_end", rejected(j.decode(bmp(8, 3, 4, None, comp=2, palette=pal4, body=body[:-2]), "bmp"), "truncated"))
    report("bmp_rle_too_wide", rejected(j.decode(bmp(8, 3, 4, None, comp=2, palette=pal4, body=b"\x09\x11\0\1"), "bmp"),
                                        "corrupt"))
    report("bmp_rle_too_high", rejected(j.decode(bmp(8, 3, 4, None, comp=2, palette=pal4, body=b"\0\0" * 4 + b"\1\1\0\1"), "bmp"),
                                        "corrupt"))
    a = noise(rng, 9, 13, 3)
    data = pil_bytes(Image.fromarray(a), "BMP")
    judge_cut(j, "bmp_24", data, "bmp", 1, len(data) - 1)
    for name, d, cls in (("jpeg", bmp(8, 3, 24, None, comp=4, body=b"abc"), "unsupported"),
                         ("huffman", bmp(8, 3, 1, None, comp=3, header=64, body=b"abc"), "unsupported"),
                         ("bits", bmp(8, 3, 7, None, body=b"abc" * 99), "corrupt"),
                         ("negative", bmp(-8, 3, 24, None, body=b"abc" * 99), "corrupt"),
                         ("empty", bmp(0, 3, 24, None, body=b"abc" * 99), "corrupt"),
                         ("bomb", bmp(60000, 60000, 24, None, body=b"abc"), "too-many-pixels"),
                         ("header", bmp(8, 3, 24, None, body=b"abc" * 99).replace(b"(\0\0\0", b")\0\0\0", 1), "unsupported")):
        report("bmp_reject_" + name, rejected(j.decode(d, "bmp"), cls))
    icc = open(ADOBE, "rb").read() if os.path.exists(ADOBE) else b"x" * 500
    rows = [r[:, ::-1].tobytes() for r in a]
    body_bytes = 9 * 40
    v5 = bytearray(bmp(13, 9, 24, rows, header=124))
    v5[14 + 56:14 + 60] = b"DEBM"
    v5[14 + 112:14 + 120] = struct.pack("<II", 124 + body_bytes, len(icc))
    h = j.header(bytes(v5) + icc, "bmp")
    report("bmp_v5_profile", None if h["icc_bytes"] == len(icc) and h["icc"] else h)
    h = j.header(bytes(v5), "bmp")
    report("bmp_v5_profile_missing", None if h["icc_bytes"] == 0 and h["notes"] & PROFILE_BAD else h)


def judge_pnm(j):
    rng = np.random.default_rng(13)
    for w in (1, 7, 8, 9, 40):
        bw = rng.integers(0, 2, (5, w)).astype(np.uint8)
        data = b"P4\n# a comment\n%d 5\n" % w + np.packbits(bw, axis=1).tobytes()
        report("pnm_p4_%d" % w, differs(j.decode(data, "pnm"), 255 - bw.astype(int) * 255, GRAY, 8, 0) or
               differs(j.decode(data, "pnm"), np.array(Image.open(io.BytesIO(data)).convert("L"))))
    text = b"P1 #x\n 3#y\n2\n0110\n01"
    report("pnm_p1", differs(j.decode(text, "pnm"), [[255, 0, 0], [255, 255, 0]], GRAY, 8, 0))
    for maxval in (1, 15, 100, 255, 256, 1000, 65535):
        a = rng.integers(0, maxval + 1, (6, 11, 3))
        full = 255 if maxval <= 255 else 65535
        want = (a * full + maxval // 2) // maxval
        for magic, px in ((b"P5", a[:, :, :1]), (b"P6", a)):
            raw = px.astype(">u2" if maxval > 255 else "u1").tobytes()
            data = magic + b" 11 6 %d\n" % maxval + raw
            bits = 16 if maxval > 255 else 8
            report("pnm_%s_%d" % (magic.decode().lower(), maxval),
                   differs(j.decode(data, "pnm"), want[:, :, :px.shape[2]], GRAY if magic == b"P5" else RGB, bits, 0))
            plain = (b"P2" if magic == b"P5" else b"P3") + b"\n11 6\n%d\n" % maxval
            plain += b"\n".join(b" ".join(b"%d" % v for v in row.ravel()) for row in px)
            report("pnm_%s_%d" % (plain[:2].decode().lower(), maxval),
                   differs(j.decode(plain, "pnm"), want[:, :, :px.shape[2]], bits=bits))
            if maxval == 100:
                judge_cut(j, "pnm_" + magic.decode(), data, "pnm")
                judge_cut(j, "pnm_" + plain[:2].decode(), plain, "pnm", 1, len(plain) - 2)
                judge_flip(j, "pnm_" + magic.decode(), data, "pnm", 300)
                judge_flip(j, "pnm_" + plain[:2].decode(), plain, "pnm", 300)
    for mode in ("L", "RGB", "1"):
        im = Image.fromarray(picture(23, 17, 3)).convert(mode)
        want = np.array(im.convert("L") if mode == "1" else im)
        report("pnm_pillow_" + mode, differs(j.decode(pil_bytes(im, "PPM"), "pnm"), want))
    for name, d, cls in (("above_maxval", b"P5 2 1 9\n\x09\x0a", "corrupt"), ("above_maxval_plain", b"P2 2 1 9 9 10", "corrupt"),
                         ("maxval_0", b"P5 2 1 0\n\0\0", "corrupt"), ("maxval_65536", b"P5 2 1 65536\n\0\0\0\0", "corrupt"),
                         ("width_0", b"P5 0 1 9\n", "corrupt"), ("letters", b"P5 x 1 9\n\0", "corrupt"),
                         ("pbm_2", b"P1 2 1 0 2", "corrupt"), ("bomb", b"P5 60000 60000 255\n\0", "too-many-pixels"),
                         ("digits", b"P5 99999999999999999999 1 255\n\0", "corrupt"), ("p7", b"P7\nWIDTH 1\n", "unknown-format"),
                         ("comment_to_end", b"P5 # never ends", "truncated")):
        report("pnm_reject_" + name, rejected(j.decode(d, "pnm"), cls))
    got = j.decode(b"P5 2 1 255\n\1\2 P5 1 1 255\n\3", "pnm")
    report("pnm_second_image", differs(got, [[1, 2]]) or (None if got["notes"] & TAIL else "no note"))


def judge_tiff_cut(j):
    rng = np.random.default_rng(17)
    a = noise(rng, 12, 15, 3)
    for name, kw in (("raw", {}), ("deflate", {"compression": 8}), ("packbits_planar", {"compression": 32773, "planar": 2}),
                     ("tiled_big", {"tile": (16, 16), "big": True, "order": ">"})):
        data = tiff(a, 2, **kw)
        # the last word is the (empty) link to the next page
        judge_cut(j, "tiff_" + name, data, "tiff", 1, len(data) - (8 if kw.get("big") else 4))
        judge_flip(j, "tiff_" + name, data, "tiff", 300)
    data = pil_bytes(Image.fromarray(picture(40, 30, 3)), "TIFF", compression="jpeg")
    judge_cut(j, "tiff_jpeg", data, "tiff", 7, len(data) - 4)
    judge_flip(j, "tiff_jpeg", data, "tiff", 200)
    data = pil_bytes(Image.fromarray(picture(40, 30, 3)), "TIFF", compression="tiff_lzw")
    judge_cut(j, "tiff_lzw", data, "tiff", 3, len(data) - 4)
    judge_flip(j, "tiff_lzw", data, "tiff", 200)
    bw = Image.fromarray(picture(61, 47, 1)).convert("1")
    data = pil_bytes(bw, "TIFF", compression="group4")
    judge_cut(j, "tiff_group4", data, "tiff", 3, len(data) - 4)
    judge_flip(j, "tiff_group4", data, "tiff", 200)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    work = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="vips_judge.")
    os.makedirs(work, exist_ok=True)
    random.seed(1)
    j = Judge(sys.argv[1], work)
    judge_bmp(j)
    judge_pnm(j)
    if "avif" in j.formats:
        judge_deep_avif(j)
    if "tiff" in j.formats:
        judge_tiff_random(j)
        judge_tiff_small_bits(j)
        judge_tiff_pillow(j)
        judge_tiff_classes(j)
        judge_tiff_cut(j)
        judge_webp(j)
        judge_gif(j)
        judge_boxes(j)
        judge_colour(j)
        judge_webp_writer(j)
    else:
        print("  no libvips: only BMP and PNM were judged")
    j.p.stdin.close()
    printed = j.p.stderr.read()
    report("nothing_printed", printed[:300] or None)
    if j.p.wait() != 0:
        report("exit", "status %d" % j.p.returncode)
    if len(sys.argv) <= 2:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
