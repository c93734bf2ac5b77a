# SPDX-License-Identifier: Apache-2.0
"""Makers of trap files, on top of the writers that the judges in test/unit have."""
import io
import random
import struct
import subprocess

import numpy as np
from PIL import Image

import _table  # noqa: F401  the import path of the judges
from jpeg_judge import after_soi, cjpeg, segment
from png_judge import SIGNATURE, chunk, ihdr, pack as pack_samples, raw_stream
from vips_judge import bmp, tiff

__all__ = ["after_soi", "bmp", "cjpeg", "segment", "chunk", "tiff"]

import zlib


def encoded(a, kind, **k):
    """What Pillow writes; a: array or image."""
    b = io.BytesIO()
    (a if isinstance(a, Image.Image) else Image.fromarray(a)).save(b, kind, **k)
    return b.getvalue()


def jpeg(a, **k):
    return encoded(a, "JPEG", **{"quality": 95, "subsampling": 0, **k})


def png(px, depth=8, colour=None, interlace=0, filters=None, before=b"", behind=b"", plte=None, trns=None, level=6, seed=1,
        end=True, break_crc=False, stream=None):
    """px: h x w or h x w x channels, raw samples. before, behind: chunks around the image data."""
    px = np.asarray(px, np.int64)
    px = px[..., None] if px.ndim == 2 else px
    if colour is None:
        colour = {1: 0, 2: 4, 3: 2, 4: 6}[px.shape[2]]
    h, w = px.shape[:2]
    body = SIGNATURE + ihdr(w, h, depth, colour, interlace)
    if plte is not None:
        body += chunk("PLTE", np.asarray(plte, np.uint8).tobytes())
    if trns is not None:
        body += chunk("tRNS", trns)
    z = zlib.compress(raw_stream(px, depth, interlace, random.Random(seed), filters), level) if stream is None else stream
    idat = chunk("IDAT", z, zlib.crc32(b"IDAT" + z) ^ 1 if break_crc else None)
    return body + before + idat + behind + (chunk("IEND", b"") if end else b"")


def exif(orientation, kind=3, big=False, tag=274):
    """A TIFF block with one tag. kind: 1 BYTE, 3 SHORT, 4 LONG."""
    e = ">" if big else "<"
    value = {1: struct.pack(e + "B3x", orientation & 255), 3: struct.pack(e + "H2x", orientation & 65535),
             4: struct.pack(e + "I", orientation)}[kind]
    return (b"MM\0*" if big else b"II*\0") + struct.pack(e + "IHHHI", 8, 1, tag, kind, 1) + value + b"\0\0\0\0"


def with_exif(jpeg_bytes, block):
    return after_soi(jpeg_bytes, segment(0xE1, b"Exif\0\0" + block))


def upright(a, orientation):
    """The picture as it is to be seen, by the definition of the tag: where row 0 and column 0 lie."""
    return {2: lambda: a[:, ::-1], 3: lambda: a[::-1, ::-1], 4: lambda: a[::-1], 5: lambda: a.swapaxes(0, 1),
            6: lambda: a[::-1].swapaxes(0, 1), 7: lambda: a[::-1, ::-1].swapaxes(0, 1),
            8: lambda: a[:, ::-1].swapaxes(0, 1)}.get(orientation, lambda: a)()


def quadrants(w=48, h=32):
    """Red, green / blue, white."""
    a = np.empty((h, w, 3), np.uint8)
    a[:h // 2, :w // 2], a[:h // 2, w // 2:] = (255, 0, 0), (0, 255, 0)
    a[h // 2:, :w // 2], a[h // 2:, w // 2:] = (0, 0, 255), (255, 255, 255)
    return a


PATCHES = ((200, 30, 30), (30, 200, 30), (30, 30, 200), (128, 128, 128))


def patches(colours=PATCHES, size=16, h=32):
    return np.repeat(np.repeat(np.array([colours], np.uint8), size, 1), h, 0)


def gradient(w, h, seed=0, channels=3, top=255):
    """Smooth in both directions, without symmetry."""
    y, x = np.mgrid[:h, :w].astype(np.float64)
    k = np.arange(channels)
    a = 0.5 + 0.45 * np.sin((x[..., None] * (1 + k % 3) + y[..., None] * (2 + seed % 3)) / (11.0 + seed % 5) + k + seed)
    a = np.rint(a * top).astype(np.uint16 if top > 255 else np.uint8)
    return a[..., 0] if channels == 1 else a


def seen(data):
    """Pillow's decode, as stored."""
    return np.asarray(Image.open(io.BytesIO(data)))


def vips(*words):
    subprocess.run(["vips", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
