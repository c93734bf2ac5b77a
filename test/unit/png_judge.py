#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges png_read and png_write from outside: usage png_judge.py path/to/test_png [seed]

Drives `test_png serve`. The pixels of every PNG read here are known, because this program encodes them itself;
where Pillow can represent them its word is asked as well. What png_write makes is read by Pillow and by a small
decoder written here from the specification. Prints "ok NAME" or "FAIL NAME"; exits non-zero on failure.
"""
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy as np
from PIL import Image, ImageFile

OK, BAD = 0, 1
TRUNCATED, CORRUPT, UNSUPPORTED, TOO_MANY_PIXELS, RATIO = 6, 7, 8, 10, 13
FIRST_FRAME, WARNING, TAIL, EXPANDED, GAMMA, PROFILE_BAD = 1 << 13, 1 << 14, 1 << 15, 1 << 17, 1 << 22, 1 << 23
GRAY, RGB, INDEX = 1, 3, 5
SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


class Slave:
    """The program under test; each request has one reply."""

    def __init__(self, program):
        self.p = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, what, data):
        self.p.stdin.write(what.encode() + struct.pack("<I", len(data)) + data)
        self.p.stdin.flush()
        head = self.p.stdout.read(20)
        if len(head) != 20:
            raise SystemExit("FAIL the program died on request %s of %d bytes: %s" % (what, len(data), data.hex()))
        status, reject, notes, text, n = struct.unpack("<5I", head)
        text = self.p.stdout.read(text).decode()
        return Reply(status, reject, notes, text, self.p.stdout.read(n))


class Reply:
    def __init__(self, status, reject, notes, text, payload):
        self.status, self.reject, self.notes, self.text, self.payload = status, reject, notes, text, payload

    def __repr__(self):
        return "status %d reject %d notes %x %s" % (self.status, self.reject, self.notes, self.text)

    def image(self):
        w, h, colour, bits, planes, alpha, n = struct.unpack("<7I", self.payload[:28])
        palette = np.frombuffer(self.payload, np.uint8, 4 * n, 28).reshape(n, 4)
        a = np.frombuffer(self.payload, np.uint8 if bits == 8 else np.uint16, offset=28 + 4 * n)
        return colour, bits, bool(alpha), palette, a.reshape(planes, h, w)


failures = 0


def verdict(name, good, detail=""):
    global failures
    print("%s %s%s" % ("ok" if good else "FAIL", name, "" if good else "  " + str(detail)))
    failures += not good
    return good


# --- an encoder ---------------------------------------------------------------------------------------------

def chunk(kind, body, crc=None):
    kind = kind.encode() if isinstance(kind, str) else kind
    return struct.pack(">I", len(body)) + kind + body + struct.pack(
        ">I", zlib.crc32(kind + body) if crc is None else crc)


def ihdr(w, h, depth, colour, interlace=0, compression=0, filtering=0):
    return chunk("IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, compression, filtering, interlace))


def pack(samples, depth):
    """samples: rows x values, to rows x bytes."""
    if depth == 16:
        return samples.astype(">u2").view(np.uint8).reshape(samples.shape[0], -1)
    if depth == 8:
        return samples.astype(np.uint8)
    bits = (samples[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(samples.shape[0], -1).astype(np.uint8), axis=1)


def predictor(kind, a, b, c):
    if kind == 0:
        return np.zeros_like(a)
    if kind == 1:
        return a
    if kind == 2:
        return b
    if kind == 3:
        return (a + b) // 2
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))


def filtered(rows, bpp, kinds):
    """rows: bytes of a pass; kinds: filter per row."""
    out = bytearray()
    before = np.zeros(rows.shape[1], np.int64)
    for row, kind in zip(rows.astype(np.int64), kinds):
        left = np.concatenate([np.zeros(bpp, np.int64), row])[:len(row)]
        corner = np.concatenate([np.zeros(bpp, np.int64), before])[:len(row)]
        out.append(kind)
        out += ((row - predictor(kind, left, before, corner)) & 255).astype(np.uint8).tobytes()
        before = row
    return bytes(out)


def raw_stream(px, depth, interlace, rng, kinds=None):
    """px: h x w x channels. The filtered bytes before deflate."""
    h, w, ch = px.shape
    bpp = max(1, ch * depth // 8)
    out = b""
    for x0, y0, dx, dy in (ADAM7 if interlace else ((0, 0, 1, 1),)):
        part = px[y0::dy, x0::dx]
        if part.shape[0] == 0 or part.shape[1] == 0:
            continue
        rows = pack(part.reshape(part.shape[0], -1), depth)
        if kinds is not None:
            k = [kinds] * len(rows)
        else:
            k = [rng.randrange(5) for _ in rows]
        out += filtered(rows, bpp, k)
    return out


def deflate(raw, rng):
    z = zlib.compressobj(rng.choice((0, 1, 6, 9)), zlib.DEFLATED, rng.choice((9, 12, 15)), 8,
                         rng.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY)))
    return z.compress(raw) + z.flush()


def idats(stream, rng):
    how = rng.randrange(4)
    if how == 0:
        return chunk("IDAT", stream)
    if how == 1 and len(stream) < 400:
        return b"".join(chunk("IDAT", stream[i:i + 1]) for i in range(len(stream)))
    out, at = b"", 0
    while at < len(stream):
        n = rng.choice((0, 1, 2, 3, 7, 50, 1000, 40000))
        out += chunk("IDAT", stream[at:at + n])
        at += n
    return out


class Made:
    """A random PNG and what it holds."""

    def __init__(self, rng, nrng, colour=None, depth=None, interlace=None, size=None):
        self.colour = rng.choice((0, 2, 3, 4, 6)) if colour is None else colour
        self.depth = rng.choice(DEPTHS[self.colour]) if depth is None else depth
        self.interlace = rng.randrange(2) if interlace is None else interlace
        w, h = (rng.randint(1, 70), rng.randint(1, 70)) if size is None else size
        self.w, self.h = w, h
        top = (1 << self.depth) - 1
        self.palette = self.trns = None
        if self.colour == 3:
            n = rng.randint(1, 1 << self.depth)
            self.palette = nrng.integers(0, 256, (n, 3), dtype=np.int64)
            top = n - 1
            if rng.randrange(2):
                self.trns = nrng.integers(0, 256, rng.randint(1, n), dtype=np.int64)
        shape = (h, w, CHANNELS[self.colour])
        if rng.randrange(2):
            px = nrng.integers(0, top + 1, shape, dtype=np.int64)
        else:  # smooth: the filters then predict well and paeth takes all its branches
            px = np.cumsum(nrng.integers(-2, 3, shape), axis=rng.randrange(2)) * max(1, top // 64) % (top + 1)
        self.px = px
        if self.colour in (0, 2) and rng.randrange(2):
            self.trns = px[rng.randrange(h), rng.randrange(w)].copy()
        body = SIGNATURE + ihdr(w, h, self.depth, self.colour, self.interlace)
        if self.palette is not None:
            body += chunk("PLTE", self.palette.astype(np.uint8).tobytes())
        if self.trns is not None:
            body += chunk("tRNS", self.trns.astype(np.uint8 if self.colour == 3 else ">u2").tobytes())
        self.stream = deflate(raw_stream(px, self.depth, self.interlace, rng), rng)
        self.data = body + idats(self.stream, rng) + chunk("IEND", b"")

    def planes(self, keep_index):
        """What png_decode must give: colour, bits, alpha, planes."""
        px, depth = self.px, self.depth
        full = 65535 if depth == 16 else 255
        if self.colour == 3:
            if keep_index:
                return INDEX, 8, False, px.transpose(2, 0, 1)
            out = self.palette[px[:, :, 0]]
            if self.trns is not None:
                a = np.full(len(self.palette), 255)
                a[:len(self.trns)] = self.trns
                out = np.dstack([out, a[px[:, :, 0]]])
            return RGB, 8, self.trns is not None, out.transpose(2, 0, 1)
        out = px
        if self.colour == 0 and depth < 8 and not keep_index:
            out = px * (255 // ((1 << depth) - 1))
        alpha = self.colour in (4, 6)
        if self.trns is not None and not keep_index:
            out = np.dstack([out, np.where((px == self.trns).all(axis=2), 0, full)])
            alpha = True
        return (GRAY if self.colour in (0, 4) else RGB), max(8, depth), alpha, out.transpose(2, 0, 1)

    def pillow_agrees(self):
        """Whether Pillow sees the pixels that this program meant to encode."""
        im = Image.open(io.BytesIO(self.data))
        im.load()
        if self.colour == 3:
            got = np.asarray(im.convert("RGBA"))
            want = self.planes(False)[3].transpose(1, 2, 0)
            return (got[:, :, :want.shape[2]] == want).all()
        got = np.asarray(im).astype(np.int64)
        if self.colour == 0 and self.depth == 1:
            got = got * 1
            return (got == self.px[:, :, 0]).all()
        if self.colour == 0 and self.depth == 16:
            return (got == self.px[:, :, 0]).all()
        if self.colour == 4 and im.mode == "RGBA":  # Pillow has no 16-bit LA
            got = got[:, :, [0, 3]]
        want = self.px >> 8 if self.depth == 16 else self.px
        if self.colour == 0 and self.depth < 8:
            want = want * (255 // ((1 << self.depth) - 1))
        return (got.reshape(want.shape) == want).all()


def same(reply, want, palette=None):
    if reply.status != OK:
        return False
    colour, bits, alpha, got_palette, planes = reply.image()
    if (colour, bits, alpha) != want[:3] or planes.shape != want[3].shape or not (planes == want[3]).all():
        return False
    return palette is None or (got_palette[:, :3] == palette).all()


# --- reading ------------------------------------------------------------------------------------------------

def judge_random(s, rng, nrng, n):
    bad = pillow_bad = 0
    kinds = set()
    for i in range(n):
        m = Made(rng, nrng)
        kinds.add((m.colour, m.depth, m.interlace))
        pillow_bad += not m.pillow_agrees()
        good = same(s.ask("d", m.data), m.planes(False)) and same(
            s.ask("k", m.data), m.planes(True), m.palette)
        check = s.ask("c", m.data)
        info = json.loads(s.ask("h", m.data).payload)
        good &= check.status == OK and check.notes == 0 and (info["w"], info["h"]) == (m.w, m.h)
        good &= info["bits"] == m.depth and info["palette"] == (m.colour == 3)
        good &= info["alpha"] == (m.trns is not None or m.colour in (4, 6)) and info["progressive"] == m.interlace
        good &= info["metadata"] == 0
        if not good:
            bad += 1
            print("  number %d: %dx%d colour %d depth %d interlace %d %r" % (
                i, m.w, m.h, m.colour, m.depth, m.interlace, s.ask("d", m.data)))
    verdict("%d random PNGs have their pixels" % n, bad == 0, "%d differ" % bad)
    verdict("Pillow agrees with the encoder of this test", pillow_bad == 0, "%d differ" % pillow_bad)
    verdict("all 30 kinds were there", len(kinds) == 30, len(kinds))


def judge_large(s, rng, nrng):
    """Rows that do not fit the window once, images of many windows, large and small IDATs."""
    bad = []
    for colour, depth, interlace, size in ((2, 8, 0, (701, 533)), (6, 8, 0, (640, 300)), (2, 16, 0, (333, 401)),
                                           (0, 8, 1, (777, 555)), (0, 1, 0, (65500, 3)), (6, 16, 0, (20001, 3)),
                                           (6, 16, 1, (20001, 5)), (0, 16, 0, (1, 30000)), (4, 8, 0, (513, 700))):
        m = Made(rng, nrng, colour, depth, interlace, size)
        if not same(s.ask("d", m.data), m.planes(False)) or s.ask("c", m.data).status != OK:
            bad.append((colour, depth, interlace, size))
    verdict("large images", not bad, bad)


def judge_acceptance(s, rng, nrng):
    px = nrng.integers(0, 256, (9, 11, 3), dtype=np.int64)
    raw = raw_stream(px, 8, 0, rng)
    z = zlib.compress(raw)
    want = (RGB, 8, False, px.transpose(2, 0, 1))
    head, end = SIGNATURE + ihdr(11, 9, 8, 2), chunk("IEND", b"")
    good = head + chunk("IDAT", z) + end

    def accepted(name, data, notes=0, what=want, mode="d"):
        r = s.ask(mode, data)
        c = s.ask("c", data)
        verdict("accepts " + name, same(r, what) and r.notes == notes and c.status == OK
                and c.notes == notes & ~EXPANDED, "%r / %r" % (r, c))

    def rejected(name, data, *classes):
        for mode in "dkc":
            r = s.ask(mode, data)
            if r.status != BAD or r.reject not in classes or not r.text:
                return verdict("rejects " + name, False, "%s: %r" % (mode, r))
        return verdict("rejects " + name, True)

    def flip(data, at):
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]

    accepted("a plain image", good)
    idat_at = len(head)
    rejected("a bad IDAT CRC", flip(good, len(head) + 8 + len(z)), CORRUPT)
    rejected("a bad IHDR CRC", flip(good, 8 + 8 + 13), CORRUPT)
    rejected("a bad Adler-32", head + chunk("IDAT", flip(z, len(z) - 1)) + end, CORRUPT)
    rejected("a bad Adler-32 split over chunks", head + b"".join(
        chunk("IDAT", flip(z, len(z) - 1)[i:i + 1]) for i in range(len(z))) + end, CORRUPT)
    rejected("no Adler-32", head + chunk("IDAT", z[:-4]) + end, TRUNCATED)
    rejected("half an Adler-32", head + chunk("IDAT", z[:-2]) + end, TRUNCATED)
    rejected("a stream that does not end", head + chunk("IDAT", z[:len(z) // 2]) + end, TRUNCATED)
    rejected("too few rows in a whole stream", head + chunk("IDAT", zlib.compress(raw[:-34])) + end, TRUNCATED)
    rejected("a file cut in IDAT", good[:idat_at + 100], TRUNCATED)
    rejected("a file cut behind IHDR", head, TRUNCATED)
    rejected("a file cut in IHDR", head[:20], TRUNCATED)
    rejected("a filter byte of 5", head + chunk("IDAT", zlib.compress(b"\5" + raw[1:])) + end, CORRUPT)
    rejected("garbage for deflate", head + chunk("IDAT", b"\x78\x9c\xff\xff\xff\xff\xff") + end, CORRUPT)
    accepted("no IEND", good[:-12], WARNING)
    accepted("half an IEND", good[:-6], WARNING)
    accepted("bytes behind IEND", good + b"tail", TAIL)
    accepted("a bad CRC of tEXt", head + chunk("tEXt", b"Comment\0x", 1) + chunk("IDAT", z) + end, WARNING)
    accepted("a bad CRC of a private chunk", head + chunk("prVt", b"x", 1) + chunk("IDAT", z) + end, WARNING)
    accepted("surplus rows", head + chunk("IDAT", zlib.compress(raw + bytes(5000))) + end, WARNING)
    accepted("surplus IDAT", head + chunk("IDAT", z) + chunk("IDAT", b"surplus and more") + end, WARNING)
    accepted("surplus bytes in IDAT", head + chunk("IDAT", z + b"x") + end, WARNING)
    accepted("surplus bytes in IDAT, many", head + chunk("IDAT", z + b"x" * 50) + end, WARNING)
    accepted("an empty IDAT at the end", head + chunk("IDAT", z) + chunk("IDAT", b"") + end)
    rejected("a bad CRC of a surplus IDAT", head + chunk("IDAT", z) + chunk("IDAT", b"surplus", 3) + end, CORRUPT)
    rejected("a bomb behind the image", head + chunk("IDAT", zlib.compress(raw + bytes(30 << 20))) + end, RATIO)
    rejected("a zlib header of another method", head + chunk("IDAT", b"\x77\x85" + z[2:]) + end, CORRUPT)
    rejected("a zlib header with a dictionary", head + chunk("IDAT", b"\x78\xbb" + z[2:]) + end, CORRUPT)
    rejected("a zlib header with a 64 KiB window", head + chunk("IDAT", b"\x88\x1c" + z[2:]) + end, CORRUPT)
    rejected("a wrong zlib header checksum", head + chunk("IDAT", b"\x78\x9d" + z[2:]) + end, CORRUPT)
    text = chunk("tEXt", b"Comment\0x")
    rejected("IDATs that are interrupted", head + chunk("IDAT", z[:50]) + text + chunk("IDAT", z[50:]) + end, CORRUPT)
    accepted("text behind IDAT", head + chunk("IDAT", z) + text + end)
    rejected("an unknown critical chunk", head + chunk("CgBI", b"1234") + chunk("IDAT", z) + end, UNSUPPORTED)
    rejected("a second IHDR", head + ihdr(11, 9, 8, 2) + chunk("IDAT", z) + end, CORRUPT)
    rejected("a chunk before IHDR", SIGNATURE + text + head[8:] + chunk("IDAT", z) + end, CORRUPT)
    rejected("no IDAT", head + end, TRUNCATED)
    for name, h in (("0 wide", ihdr(0, 9, 8, 2)), ("0 high", ihdr(11, 0, 8, 2)), ("depth 3", ihdr(11, 9, 3, 0)),
                    ("RGB of 4 bits", ihdr(11, 9, 4, 2)), ("colour type 5", ihdr(11, 9, 8, 5)),
                    ("palette of 16 bits", ihdr(11, 9, 16, 3)), ("compression 1", ihdr(11, 9, 8, 2, compression=1)),
                    ("filter method 64", ihdr(11, 9, 8, 2, filtering=64)), ("interlace 2", ihdr(11, 9, 8, 2, 2))):
        rejected("a header with " + name, SIGNATURE + h + chunk("IDAT", z) + end, CORRUPT)
    bomb = SIGNATURE + ihdr(65000, 65000, 8, 2) + chunk("IDAT", zlib.compress(bytes(1 << 20))) + end
    rejected("a bomb by its header", bomb, TOO_MANY_PIXELS)
    rejected("a wide bomb", SIGNATURE + ihdr(100000, 1, 8, 0) + chunk("IDAT", z) + end, TOO_MANY_PIXELS)
    rejected("more pixels than the bytes can hold", SIGNATURE + ihdr(13000, 13000, 8, 2) + chunk("IDAT", z) + end,
             TRUNCATED)
    rejected("other bytes behind a PNG name", b"GIF89a" + good, CORRUPT)

    def info(data):
        return json.loads(s.ask("h", data).payload)

    for name, exif in (("before", True), ("after", False)):
        for order, fmt in (("II", "<"), ("MM", ">")):
            tiff = order.encode() + struct.pack(fmt + "HIHHHIHHI", 42, 8, 1, 274, 3, 1, 6, 0, 0)
            e = chunk("eXIf", tiff)
            data = head + (e if exif else b"") + chunk("IDAT", z) + (b"" if exif else e) + end
            i = info(data)
            verdict("orientation from eXIf %s IDAT, %s" % (name, order), i["orientation"] == 6 and i["metadata"] == 1
                    and Image.open(io.BytesIO(data)).getexif().get(274, 6) == 6, i)
    i = info(head + chunk("eXIf", tiff, 5) + chunk("IDAT", z) + end)
    verdict("no orientation from a damaged eXIf", i["orientation"] == 1 and i["notes"] == WARNING, i)
    i = info(head + chunk("gAMA", struct.pack(">I", 100000)) + chunk("IDAT", z) + end)
    verdict("gAMA is noted", i["notes"] == GAMMA, i)
    i = info(head + chunk("gAMA", struct.pack(">I", 45455)) + chunk("IDAT", z) + end)
    verdict("gAMA of sRGB is not", i["notes"] == 0, i)
    frames = chunk("acTL", struct.pack(">II", 3, 0)) + chunk("fcTL", struct.pack(">IIIIIHHBB", 0, 11, 9, 0, 0, 1, 1, 0, 0))
    apng = head + frames + chunk("IDAT", z) + chunk("fcTL", bytes(26)) + chunk("fdAT", b"\0\0\0\2" + z) + end
    accepted("an APNG: the default image", apng, FIRST_FRAME)
    verdict("frames of an APNG", info(apng)["frames"] == 3, info(apng))
    profile = bytes(range(256)) * 40
    icc = head + chunk("iCCP", b"name\0\0" + zlib.compress(profile)) + chunk("IDAT", z) + end
    verdict("profile", s.ask("i", icc).payload == profile and info(icc)["icc_bytes"] > 0)
    verdict("no profile", s.ask("i", good).status == OK and s.ask("i", good).payload == b"")
    for name, body in (("cut", b"name\0\0" + zlib.compress(profile)[:-9]), ("without data", b"name\0\0"),
                       ("without a name", b"x" * 90), ("of 5 MiB", b"n\0\0" + zlib.compress(bytes(5 << 20))),
                       ("with a bad Adler", b"n\0\0" + flip(zlib.compress(profile), -1 % len(zlib.compress(profile)))),
                       ("of method 1", b"n\0\1" + zlib.compress(profile))):
        data = head + chunk("iCCP", body) + chunk("IDAT", z) + end
        verdict("a profile " + name, s.ask("i", data).status == BAD and same(s.ask("d", data), want))
    strip = s.ask("s", head + text + frames + chunk("gAMA", b"\0\1\2\3") + chunk("sBIT", b"\5\6\7")
                  + chunk("IDAT", z[:40]) + chunk("IDAT", z[40:]) + text + end + b"tail").payload
    verdict("strip", strip == head + chunk("sBIT", b"\5\6\7") + chunk("IDAT", z[:40]) + chunk("IDAT", z[40:]) + end)
    verdict("strip mends a missing IEND", s.ask("s", good[:-12]).payload == good)

    # Palette: range, order, tRNS.
    idx = np.array([[[0], [1], [2]], [[2], [1], [0]]])
    zi = zlib.compress(raw_stream(idx, 8, 0, rng))
    phead = SIGNATURE + ihdr(3, 2, 8, 3)
    plte = bytes(range(9))
    rejected("an index beyond the palette", phead + chunk("PLTE", plte[:6]) + chunk("IDAT", zi) + end, CORRUPT)
    rejected("no PLTE", phead + chunk("IDAT", zi) + end, CORRUPT)
    rejected("PLTE behind IDAT", phead + chunk("IDAT", zi) + chunk("PLTE", plte) + end, CORRUPT)
    rejected("two PLTE", phead + chunk("PLTE", plte) * 2 + chunk("IDAT", zi) + end, CORRUPT)
    rejected("PLTE of 8 bytes", phead + chunk("PLTE", plte[:8]) + chunk("IDAT", zi) + end, CORRUPT)
    rejected("a bad PLTE CRC", phead + chunk("PLTE", plte, 7) + chunk("IDAT", zi) + end, CORRUPT)
    rejected("a bad tRNS CRC", phead + chunk("PLTE", plte) + chunk("tRNS", b"\0", 7) + chunk("IDAT", zi) + end, CORRUPT)
    rgb = np.arange(9).reshape(3, 3)[idx[:, :, 0]]
    rgba = np.dstack([rgb, np.array([7, 255, 255])[idx[:, :, 0]]])
    accepted("a short tRNS", phead + chunk("PLTE", plte) + chunk("tRNS", b"\7") + chunk("IDAT", zi) + end, EXPANDED,
             (RGB, 8, True, rgba.transpose(2, 0, 1)))
    accepted("a tRNS longer than the palette", phead + chunk("PLTE", plte) + chunk("tRNS", b"\7\377\377\1") +
             chunk("IDAT", zi) + end, EXPANDED | WARNING, (RGB, 8, True, rgba.transpose(2, 0, 1)))
    r = s.ask("k", phead + chunk("PLTE", plte) + chunk("tRNS", b"\7") + chunk("IDAT", zi) + end)
    verdict("indices kept, with the palette's alpha", r.notes == 0 and same(r, (INDEX, 8, False, idx.transpose(2, 0, 1)))
            and r.image()[3].tolist() == [[0, 1, 2, 7], [3, 4, 5, 255], [6, 7, 8, 255]], r)
    gray = np.array([[[0], [1], [2], [3]]])
    g = SIGNATURE + ihdr(4, 1, 2, 0) + chunk("tRNS", b"\0\2") + chunk("IDAT", zlib.compress(b"\0\x1b")) + end
    accepted("gray of 2 bits with tRNS", g, EXPANDED,
             (GRAY, 8, True, np.array([[[0, 85, 170, 255]], [[255, 255, 0, 255]]])))
    verdict("gray of 2 bits kept raw", same(s.ask("k", g), (GRAY, 8, False, gray.transpose(2, 0, 1))))
    k16 = SIGNATURE + ihdr(2, 1, 16, 0) + chunk("tRNS", b"\x12\x34") + chunk(
        "IDAT", zlib.compress(b"\0\x12\x34\x12\x35")) + end
    accepted("tRNS of 16 bits compares all bits", k16, 0,
             (GRAY, 16, True, np.array([[[0x1234, 0x1235]], [[0, 65535]]])))


def judge_damage(s, rng, nrng):
    """Every cut and every change of a byte of two small files: an error, or the right pixels."""
    for name, args in (("palette", (3, 4, 1, (7, 6))), ("RGB", (2, 8, 0, (5, 4)))):
        while True:
            m = Made(rng, nrng, *args)
            if m.trns is not None and len(m.data) < 300:
                break
        want = m.planes(False)
        bad = accepted = 0
        for n in range(len(m.data)):
            r = s.ask("d", m.data[:n])
            accepted += r.status == OK
            if r.status == OK and not (same(r, want) and r.notes & WARNING):
                bad += 1
                print("  cut at %d: %r" % (n, r))
        verdict("%s cut anywhere: %d accepted" % (name, accepted), bad == 0 and accepted <= 12, bad)
        bad = accepted = 0
        for at in range(len(m.data)):
            for x in range(1, 256):
                data = bytearray(m.data)
                data[at] ^= x
                data = bytes(data)
                r = s.ask("d", data)
                accepted += r.status == OK
                if r.status == OK and not same(r, want) or r.status not in (OK, BAD):
                    bad += 1
                    print("  byte %d ^ %02x: %r" % (at, x, r))
        verdict("%s with any byte changed: %d accepted" % (name, accepted), bad == 0, bad)
        # With the CRC mended the damage reaches the parser and the inflater.
        died = 0
        for _ in range(4000):
            data, at, parts = m.data, 8, []
            while at < len(data):
                n = struct.unpack(">I", data[at:at + 4])[0]
                parts.append((data[at + 4:at + 8], bytearray(data[at + 8:at + 8 + n])))
                at += n + 12
            kind, body = rng.choice([p for p in parts if p[1]])
            for _ in range(rng.randint(1, 3)):
                body[rng.randrange(len(body))] = rng.randrange(256)
            rng.random() < 0.1 and rng.shuffle(parts)
            data = SIGNATURE + b"".join(chunk(k, bytes(b)) for k, b in parts)
            for mode in "dkcsi":
                died += s.ask(mode, data).status not in (OK, BAD)
        verdict("%s damaged under right CRCs" % name, died == 0, died)


# --- writing ------------------------------------------------------------------------------------------------

def decode_plain(data):
    """The specification's decoder for what png_write makes: header fields, palette, tRNS, samples."""
    assert data[:8] == SIGNATURE
    at, chunks = 8, []
    while at < len(data):
        n = struct.unpack(">I", data[at:at + 4])[0]
        kind, body = data[at + 4:at + 8].decode(), data[at + 8:at + 8 + n]
        assert zlib.crc32(kind.encode() + body) == struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0]
        chunks.append((kind, body))
        at += n + 12
    kinds = [k for k, _ in chunks]
    assert kinds[0] == "IHDR" and kinds[-1] == "IEND" and set(kinds) <= {"IHDR", "PLTE", "tRNS", "IDAT", "IEND"}
    w, h, depth, colour, a, b, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (a, b, interlace) == (0, 0, 0)
    raw = zlib.decompress(b"".join(body for k, body in chunks if k == "IDAT"))
    bpp, row = max(1, CHANNELS[colour] * depth // 8), (w * CHANNELS[colour] * depth + 7) // 8
    assert len(raw) == h * (row + 1)
    before, rows, filters = [0] * row, [], set()
    for y in range(h):
        line = raw[y * (row + 1):(y + 1) * (row + 1)]
        filters.add(line[0])
        now = list(line[1:])
        for i in range(row):
            left, corner = (now[i - bpp], before[i - bpp]) if i >= bpp else (0, 0)
            if line[0] == 1:
                now[i] += left
            elif line[0] == 2:
                now[i] += before[i]
            elif line[0] == 3:
                now[i] += (left + before[i]) // 2
            elif line[0] == 4:
                p = left + before[i] - corner
                d = (abs(p - left), abs(p - before[i]), abs(p - corner))
                now[i] += (left, before[i], corner)[d.index(min(d))]
            now[i] &= 255
        rows.append(bytes(now))
        before = now
    body = np.frombuffer(b"".join(rows), np.uint8).reshape(h, row)
    if depth == 16:
        px = body.reshape(h, -1, 2).astype(np.int64)
        px = px[:, :, 0] * 256 + px[:, :, 1]
    elif depth == 8:
        px = body
    else:
        bits = np.unpackbits(body, axis=1)[:, :w * depth].reshape(h, w, depth)
        px = (bits * (1 << np.arange(depth - 1, -1, -1))).sum(axis=2)
    first = dict(reversed(chunks))
    return depth, colour, first.get("PLTE"), first.get("tRNS"), px.reshape(h, w, -1).transpose(2, 0, 1), filters


def write_request(planes, colour, bits, alpha, level=6, min_bits=0, raw_bits=0, palette=b""):
    n, h, w = planes.shape
    return struct.pack("<9I", colour, bits, alpha, level, min_bits, raw_bits, w, h, len(palette) // 4) + palette + \
        planes.astype(np.uint8 if bits == 8 else np.uint16).tobytes()


def judge_write(s, rng, nrng, n):
    bad = 0
    depths = set()
    files = []
    for i in range(n):
        colour = (GRAY, RGB, INDEX)[i % 3]
        bits = 8 if colour == INDEX else rng.choice((8, 16))
        alpha = colour != INDEX and rng.randrange(2)
        if i < 15:  # every kind at least once, whatever the seed
            bits, alpha = 8, 0
        raw_bits = (0, 1, 2, 4, 8)[i // 3 % 5] if colour == GRAY and bits == 8 and not alpha else 0
        count = (2, 3, 16, 17, 200, 1, 4, 5, 256)[i // 3 % 9] if colour == INDEX else 0
        min_bits = rng.choice((0, 1, 2, 4, 8)) if i >= 15 else 0
        top = count - 1 if count else (1 << (raw_bits or bits)) - 1
        shape = ((3 if colour == RGB else 1) + alpha, rng.randint(1, 40), rng.randint(1, 40))
        px = nrng.integers(0, top + 1, shape)
        if rng.randrange(2):
            px = np.cumsum(nrng.integers(-2, 3, shape), axis=1 + rng.randrange(2)) * max(1, top // 64) % (top + 1)
        palette = nrng.integers(0, 256, (count, 4), dtype=np.uint8)
        if count and rng.randrange(2):
            palette[rng.randrange(count):, 3] = 255
        request = write_request(px, colour, bits, alpha, rng.randint(1, 9), min_bits, raw_bits, palette.tobytes())
        r = s.ask("w", request)
        if r.status != OK or s.ask("w", request).payload != r.payload:
            bad += 1
            print("  write %d: %r" % (i, r))
            continue
        depth, kind, plte, trns, got, filters = decode_plain(r.payload)
        depths.add((kind, depth))
        good = got.shape == px.shape and (got == px).all()
        if colour == INDEX:
            smallest = min(d for d in (1, 2, 4, 8) if 1 << d >= count and d >= min_bits)
            opaque = palette[:, 3].tolist()
            while opaque and opaque[-1] == 255:
                opaque.pop()
            good &= depth == smallest and plte == palette[:, :3].tobytes() and (trns or b"") == bytes(opaque)
            good &= filters == {0}
        else:
            good &= depth == (raw_bits if raw_bits in (1, 2, 4) else bits) and plte is None and trns is None
        im = Image.open(io.BytesIO(r.payload))
        im.load()
        if colour == INDEX:
            good &= im.mode == "P" and (np.asarray(im) == px[0]).all()
        elif bits == 16 and (colour == RGB or alpha):
            got = np.asarray(im).reshape(shape[1], shape[2], -1).transpose(2, 0, 1)
            if colour == GRAY and im.mode == "RGBA":  # Pillow has no 16-bit LA
                got = got[[0, 3]]
            good &= (got == px >> 8).all()
        elif depth >= 8:
            good &= (np.asarray(im).reshape(shape[1], shape[2], -1).transpose(2, 0, 1) == px).all()
        back = s.ask("k", r.payload)
        good &= same(back, (colour, bits, bool(alpha), px))
        if not good:
            bad += 1
            print("  write %d: colour %d bits %d alpha %d raw %d" % (i, colour, bits, alpha, raw_bits))
        files.append(r.payload)
    verdict("%d written PNGs hold their pixels and come out the same twice" % n, bad == 0, "%d differ" % bad)
    verdict("all 15 kinds were written", len(depths) == 15, sorted(depths))
    big = nrng.integers(0, 256, (3, 700, 900))
    r = s.ask("w", write_request(big, RGB, 8, 0, 1))
    im = np.asarray(Image.open(io.BytesIO(r.payload)))
    verdict("a written PNG of several IDATs", r.payload.count(b"IDAT") > 3 and (im.transpose(2, 0, 1) == big).all())
    tool = shutil.which("pngfix")
    if tool is not None:  # libpng's own judge of deflate streams and chunks
        with tempfile.TemporaryDirectory() as d:
            names = []
            for i, data in enumerate(files[:150] + [r.payload]):
                names.append(os.path.join(d, "%d.png" % i))
                with open(names[-1], "wb") as f:
                    f.write(data)
            out = subprocess.run([tool] + names, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            lines = out.stdout.decode().splitlines()
            verdict("libpng (pngfix) finds no fault", out.returncode == 0 and all(x.startswith("IDAT OK") for x in lines),
                    "%d %s" % (out.returncode, lines[:3]))


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20240501
    print("# seed", seed)
    warnings.simplefilter("ignore")
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    rng, nrng = random.Random(seed), np.random.default_rng(seed)
    s = Slave(program)
    judge_acceptance(s, rng, nrng)
    judge_random(s, rng, nrng, 2000)
    judge_large(s, rng, nrng)
    judge_write(s, rng, nrng, 300)
    judge_damage(s, rng, nrng)
    s.p.stdin.close()
    verdict("the program ends well", s.p.wait() == 0)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
