#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds in test/fuzz/corpus/TARGET/: small whole files of every kind, from which the
fuzzer starts. Run by hand (SLIMSET=build/slimset python3 test/fuzz/make_corpus.py); the result is
in the tree. Inputs that once showed a fault are named found-* and are not touched here."""
import gzip
import io
import lzma
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")


def put(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def picture(w, h, mode="RGB", seed=0):
    y, x = np.mgrid[0:h, 0:w]
    rgb = np.stack([x * 255 // max(w - 1, 1), y * 255 // max(h - 1, 1), (x * 7 + y * 5 + seed) % 256], -1)
    return Image.fromarray(rgb.astype(np.uint8)).convert(mode)


def saved(im, fmt, **options):
    b = io.BytesIO()
    im.save(b, fmt, **options)
    return b.getvalue()


def exif(orientation):
    return (b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + struct.pack("<I", orientation) + b"\0\0\0\0")


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(w, h, depth, colour, rows, interlace=0, extra=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)) + extra +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpegs():
    im = picture(24, 17)
    return {
        "420": saved(im, "JPEG", quality=80), "444": saved(im, "JPEG", quality=90, subsampling=0),
        "422": saved(im, "JPEG", quality=50, subsampling=1), "gray": saved(im.convert("L"), "JPEG"),
        "progressive": saved(im, "JPEG", progressive=True), "cmyk": saved(im.convert("CMYK"), "JPEG"),
        "exif": saved(im, "JPEG", exif=exif(6)), "restart": saved(im, "JPEG", restart_marker_rows=1),
        "icc": saved(im, "JPEG", icc_profile=b"\0" * 200), "comment": saved(im, "JPEG", comment=b"a comment"),
    }


def pngs():
    im = picture(16, 11)
    quant = im.quantize(13)
    quant.info["transparency"] = 3
    a16 = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    return {
        "rgb": saved(im, "PNG"), "gray": saved(im.convert("L"), "PNG"), "rgba": saved(im.convert("RGBA"), "PNG"),
        "la": saved(im.convert("LA"), "PNG"), "palette": saved(quant, "PNG", transparency=3, bits=4),
        "bit": saved(im.convert("1"), "PNG"), "gray16": saved(Image.fromarray(a16), "PNG"),
        "rgb16": png(2, 2, 16, 2, b"".join(b"\0" + bytes(range(12)) for _ in range(2))),
        "adam7": png(3, 3, 8, 0, b"\0\1" b"\0\2" b"\0\3\0\4\0\5" b"\0\6\7\0\1\2\3" b"\0\1\0\2", interlace=1),
        "trns": png(2, 2, 8, 0, b"\0\1\2\4\3\4", extra=chunk(b"tRNS", b"\0\2")),
        "text": png(2, 2, 8, 0, b"\1\1\2\2\3\4", extra=chunk(b"gAMA", b"\0\0\xb1\x8e") + chunk(b"tEXt", b"a\0b") +
                    chunk(b"eXIf", exif(3)[6:]) + chunk(b"iCCP", b"x\0\0" + zlib.compress(b"p" * 90))),
    }


def bmps():
    im = picture(9, 7)
    rle = (b"BM" + struct.pack("<IHHI", 1078 + 12, 0, 0, 1078) +
           struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, 8, 1, 12, 0, 0, 256, 0) + bytes(range(256)) * 4 +
           b"\4\1\0\0\0\3\5\6\7\0\1\1\0\1")
    return {
        "24": saved(im, "BMP"), "8": saved(im.convert("L"), "BMP"), "1": saved(im.convert("1"), "BMP"), "rle8": rle,
        "32": saved(im.convert("RGBA"), "BMP"), "p1": b"P1\n# c\n3 2\n1 0 1\n0 1 0\n", "p2": b"P2 2 2 9\n1 2 3 9\n",
        "p3": b"P3 1 2 255 1 2 3 4 5 6", "p4": saved(im.convert("1"), "PPM"), "p5": saved(im.convert("L"), "PPM"),
        "p6": saved(im, "PPM"), "p5_16": b"P5 2 1 1000\n\0\1\3\xe8",
    }


def others():
    im = picture(12, 9)
    found = {
        "tiff": saved(im, "TIFF"), "tiff_lzw": saved(im, "TIFF", compression="tiff_lzw"), "gif": saved(im.quantize(8), "GIF"),
        "gif_frames": saved(im.quantize(8), "GIF", save_all=True, append_images=[im.rotate(90).quantize(8)]),
        "tiff_gray": saved(im.convert("L"), "TIFF", tiffinfo={274: 6}), "webp": saved(im, "WEBP"),
        "webp_lossless": saved(im.convert("RGBA"), "WEBP", lossless=True), "svg": b"<?xml version='1.0'?><svg/>",
        "html": b"<!DOCTYPE html><html></html>", "pdf": b"%PDF-1.7\n", "lfs": b"version https://git-lfs.github.com/spec/v1\n",
        "exif": exif(8), "text": b"just words\n",
    }
    with tempfile.TemporaryDirectory() as tmp:
        source = os.path.join(tmp, "x.png")
        im.save(source)
        for ext in ("heic", "avif", "jxl", "jp2"):
            to = os.path.join(tmp, "x." + ext)
            if subprocess.run(["vips", "copy", source, to], capture_output=True).returncode == 0:
                with open(to, "rb") as f:
                    found[ext] = f.read()
            else:
                print("no", ext, file=sys.stderr)
    return found


def zips():
    found = {}
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        b = io.BytesIO()
        with zipfile.ZipFile(b, "w", method) as z:
            z.writestr(zipfile.ZipInfo("a/x.txt"), b"words " * 20)
            z.writestr(zipfile.ZipInfo("a/y.png"), pngs()["gray"])
        found[name] = b.getvalue()
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("c.tar"), tars()["ustar"])
        z.writestr(zipfile.ZipInfo("b.zip"), found["stored"])
        z.writestr(zipfile.ZipInfo("e.tar.gz"), gzip.compress(tars()["ustar"], mtime=0))
    found["nested"] = inner.getvalue()
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr(zipfile.ZipInfo("../evil"), b"1")
        z.writestr(zipfile.ZipInfo("/abs"), b"2")
        z.writestr(zipfile.ZipInfo("C:\\x"), b"3")
        z.writestr(zipfile.ZipInfo("twice"), b"4")
    found["names"] = b"#!/bin/sh\n" + b.getvalue()
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z, z.open(zipfile.ZipInfo("big"), "w", force_zip64=True) as f:
        f.write(b"zip64")
    found["zip64"] = b.getvalue()
    return found


def tars():
    def tar(fmt, *members):
        b = io.BytesIO()
        with tarfile.open(fileobj=b, mode="w", format=fmt) as t:
            for name, data, kind in members:
                info = tarfile.TarInfo(name)
                info.type = kind
                if kind in (tarfile.LNKTYPE, tarfile.SYMTYPE):
                    info.linkname = data.decode()
                    data = b""
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
        return b.getvalue()[:8192].rstrip(b"\0") + bytes(1024)
    f = tarfile.REGTYPE
    plain = tar(tarfile.USTAR_FORMAT, ("a/x.txt", b"words", f), ("a/y.cls", b"7", f))
    found = {
        "ustar": plain[:-1024] + bytes(-(len(plain) - 1024) % 512) + bytes(1024),
        "gnu": tar(tarfile.GNU_FORMAT, ("n" * 150, b"long", f), ("l", b"a", tarfile.LNKTYPE)),
        "pax": tar(tarfile.PAX_FORMAT, ("\u00e9" * 120, b"pax", f), ("s", b"/etc/passwd", tarfile.SYMTYPE)),
        "links": tar(tarfile.USTAR_FORMAT, ("a", b"1", f), ("b", b"a", tarfile.LNKTYPE), ("a", b"2", f),
                     ("../c", b"3", f), ("fifo", b"", tarfile.FIFOTYPE)),
    }
    found["nested"] = tar(tarfile.USTAR_FORMAT, ("in.tar", found["ustar"], f),
                          ("in.tar.gz", gzip.compress(found["ustar"], mtime=0), f))
    return {k: v + bytes(-len(v) % 512) for k, v in found.items()}


def spools():
    data = tars()["ustar"]
    zstd = subprocess.run(["zstd", "-qc", "-19"], input=data, capture_output=True, check=True).stdout
    return {"gz": gzip.compress(data, mtime=0), "gz_two": gzip.compress(b"one", mtime=0) + gzip.compress(b"two", mtime=0),
            "zst": zstd, "zst_two": zstd + zstd, "xz": lzma.compress(data), "xz_bomb": lzma.compress(bytes(3 << 20)),
            "gz_bomb": gzip.compress(bytes(2 << 20), mtime=0)}


def npys():
    def npy(a):
        b = io.BytesIO()
        np.save(b, a)
        return b.getvalue()
    found = {"f4": npy(np.arange(6, dtype=np.float32).reshape(2, 3)), "u1": npy(np.zeros((4, 4, 3), np.uint8)),
             "fortran": npy(np.asfortranarray(np.ones((2, 3), np.int16))), "scalar": npy(np.float64(1.5)),
             "be": npy(np.arange(3, dtype=">u2")), "bool": npy(np.array([True, False])), "str": npy(np.array(["a"]))}
    for name, save in (("npz", np.savez), ("npz_c", np.savez_compressed)):
        b = io.BytesIO()
        save(b, x=np.arange(4), y=np.ones((2, 2), np.float32))
        found[name] = b.getvalue()
    return found


def datasets():
    """index, plan and fragments of a small run that was stopped before publishing, and the index of a finished one"""
    found = {}
    slimset = os.environ["SLIMSET"]
    with tempfile.TemporaryDirectory() as tmp:
        src = os.path.join(tmp, "src")
        for i in range(4):
            folder = os.path.join(src, "train" if i < 3 else "val", "ab"[i % 2])
            os.makedirs(folder, exist_ok=True)
            picture(20, 16, seed=i).save(os.path.join(folder, f"{i}.jpg"))
        with open(os.path.join(src, "train", "a", "bad.jpg"), "wb") as f:
            f.write(b"\xff\xd8\xff")
        for name, extra in (("shards", []), ("tree", ["--to", "tree"])):
            out = os.path.join(tmp, name)
            subprocess.run([slimset, "pack", src, "-o", out, "--shards", "1", *extra], capture_output=True)
            with open(os.path.join(out, "slimset.index"), "rb") as f:
                found[name] = f.read()
            # the same as a plan and as a fragment: the kind is one number in the header, checked by its hash
    return found


def answers():
    """struct item_answer and its fields as a worker writes them (see src/item.h), by hand"""
    found = {}
    for name, inputs, status, reject, text in (("two", 3, 0, 0, b""), ("reject", 3, 1, 6, b"ends too early"), ("one", 1, 0, 0, b"")):
        fields, payloads = b"", b""
        for i in range(inputs if status == 0 else 0):
            payload = (b"\xff\xd8\xff\xe0jpeg\xff\xd9", b"words", b"\x89PNG\r\n\x1a\nrest")[i]
            fields += struct.pack("<QQQ8I8B4IBB6xQ", len(payload), 100, 55, 8, 8, 16, 16, (1, 0, 1)[i], 1, 0, 0,
                                  (1, 25, 2)[i], (1, 25, 2)[i], 3, 8, 1, 90, 8, 3, 0, 0, 0, 0, 0, 0, 0)
            payloads += payload
        body = fields + text + payloads
        head = struct.pack("<QIIiIIIQ", 7, status, reject, 0, 0, inputs if status == 0 else 0, len(text), 40 + len(body))
        found[name] = (b"\1" if inputs == 1 else b"\0") + head + body
    return found


def lister_records():
    def member(name, offset, n, problem=0):
        size = (56 + len(name) + 7) // 8 * 8
        return (struct.pack("<IIQQQqIBBBBII", size, len(name), offset, n, n, 0, 0, 0, 0, 0, 0, problem, 0) + name).ljust(size, b"\0")
    done = struct.pack("<IIIiQQBBB5x", 0, 0, 0, 0, 2, 0, 0, 0, 0).ljust(552, b"\0")
    return {"members": member(b"a/x.jpg", 0, 100) + member(b"b.txt", 600, 5), "problem": member(b"../x", 0, 1, 22), "done": done}


def main():
    random.seed(1)
    for target in ("sniff", "png", "jpeg", "bmp", "zip", "tar", "spool", "npy", "answer", "lister", "index", "keys", "recipe", "item", "config",
                   "worker", "inflate", "decode"):
        folder = os.path.join(CORPUS, target)
        if os.path.isdir(folder):
            for name in os.listdir(folder):
                if not name.startswith("found-"):
                    os.remove(os.path.join(folder, name))
    groups = {"png": pngs(), "jpeg": jpegs(), "bmp": bmps(), "sniff": others(), "zip": zips(), "tar": tars(), "spool": spools(),
              "npy": npys(), "index": datasets(), "answer": answers(), "lister": lister_records()}
    for target, files in groups.items():
        for name, data in files.items():
            put(target, name, data)
    put("config", "all", b'# c\nresize = long:512\nlossless=yes\n\n[rule "*_mask.png"]\nrole = mask\n[field depth]\npattern = "d/{}.\\"png"\n')
    put("keys", "names", b"\0a/0001.jpg\na/0001.seg.png\nb/IM.0\nb/IM.1\n.hidden/x y.jpg\nn\xff.b.c.tar.gz\n" + b"l" * 300 + b".jpg\n")
    put("keys", "wds", b"\1k/0001.jpg\nk/0001.cls\nk/0002.jpg\n")
    put("keys", "prefix", b"\2a.jpg\nA.JPG\na.png\n")
    for text in ("512", "long:512", "short:256", "exact:3x4", "crop:3x4", "pad:3x4", "area:999", "scale:0.5"):
        put("recipe", text.replace(":", "_"), text.encode())
    put("recipe", "meta", b"tool=slimset 0.1.0\nlayout=shards\nrecipe.resize=long:512\nrecipe.quality=90\nrecipe.rule0=mask *.png\n")
    # recipe 8, op, inputs, then per input: role codec archive flags offset size crc
    head = bytes([1, 30, 30, 0, 89, 0, 5, 0, 0, 0]) + bytes([0, 1, 0, 0, 0, 0, 0]) * 2
    for name, data in (("jpeg", jpegs()["420"]), ("png", pngs()["rgb"]), ("bmp", bmps()["24"]), ("npy", npys()["f4"]),
                       ("text", b"<annotation><object><bndbox></bndbox></object></annotation>"), ("npz", npys()["npz"])):
        put("item", name, head + data)
    put("item", "mask", bytes([1, 30, 30, 0, 89, 0, 5, 0, 0, 0]) + bytes([1, 2, 0, 0, 0, 0, 0]) * 2 + pngs()["palette"])
    put("item", "zip", bytes([1, 30, 30, 0, 89, 0, 5, 0, 0, 0]) + bytes([128, 1, 6, 0, 0, 3, 1]) * 2 + zips()["deflated"])
    deflates = {"stored": zlib.compressobj(0), "fixed": zlib.compressobj(9, strategy=zlib.Z_FIXED), "dynamic": zlib.compressobj(9),
                "huffman": zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY), "runs": zlib.compressobj(9, strategy=zlib.Z_RLE)}
    words = picture(24, 17).tobytes() + bytes(300) + b"far " * 90 + picture(24, 17).tobytes()
    for name, z in deflates.items():
        put("inflate", name, b"\5\3" + (z.compress(words[:1500] if name in ("stored", "huffman") else words) + z.flush())[2:])
    put("inflate", "bomb", b"\xff\xff" + zlib.compress(bytes(1 << 21), 9)[2:])
    # options 12: channels, scale, least size, what follows, crop, stride
    for name, data in (*((k, jpegs()[k]) for k in ("420", "422", "gray", "progressive", "cmyk")),
                       *(("png_" + k, pngs()[k]) for k in ("rgb", "rgba", "la", "palette", "bit", "gray16", "adam7", "trns"))):
        put("decode", name, bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) + data)
    put("decode", "crop", bytes([3, 1, 0, 0, 1, 3, 2, 9, 7, 0, 0, 0]) + jpegs()["420"])
    put("decode", "planes", bytes([128 + 3, 4, 8, 8, 2, 0, 0, 0, 0, 90, 0, 0]) + pngs()["rgb"])
    item_input = struct.pack("<QQQqI8B4x", 0, 300, 300, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    put("worker", "one", b"\1" + struct.pack("<QIIII", 5, 1, 0, 1, 1) + item_input)
    put("worker", "two", b"\2" + struct.pack("<QIIII", 5, 2, 3, 2, 2) + item_input + item_input)


main()
