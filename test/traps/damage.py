# SPDX-License-Identifier: Apache-2.0
"""Group E: damage and harmless oddities, odd codings of JPEG, limits. A reject names file, archive and member."""
import io
import itertools
import struct
import tempfile
import time
import zlib

import numpy as np
from PIL import Image

from _table import Case, main, report, run_table, stored
from _make import after_soi, chunk, cjpeg, encoded, exif, gradient, jpeg, png, seen, segment, upright, with_exif
from _frame import pack, psnr, rejects, write

PHOTO = gradient(320, 240, 3)
NOISE = np.clip(PHOTO.astype(int) + np.random.default_rng(5).integers(-25, 26, PHOTO.shape), 0, 255).astype(np.uint8)


FACTORS = ("1x1,1x1,1x1", "2x1,1x1,1x1", "1x2,1x1,1x1", "2x2,1x1,1x1", "4x1,1x1,1x1", "1x4,1x1,1x1", "4x2,1x1,1x1",
           "2x4,1x1,1x1", "2x2,2x1,1x2", "2x2,2x2,1x1", "3x1,1x1,1x1", "1x1,2x2,2x2", "1x1,1x2,2x1", "2x2,1x2,2x1")


def find(data, marker):
    return data.index(b"\xff" + bytes([marker]))


def jpeg_damage():
    ok = jpeg(NOISE, quality=90, subsampling=2)
    pixels = seen(ok)
    progressive = jpeg(NOISE, quality=90, subsampling=2, progressive=True)
    restart = cjpeg(NOISE, "-restart", "1", "-quality", "90")
    arithmetic = cjpeg(NOISE, "-arithmetic", "-quality", "90")
    sof, sos = find(ok, 0xC0), find(ok, 0xDA)
    half = len(ok) // 2
    cut = "truncated"
    with_height = lambda h: ok[:sof + 5] + struct.pack(">H", h) + ok[sof + 7:]
    marks = [i for i in range(len(restart) - 1) if restart[i] == 0xFF and 0xD0 <= restart[i + 1] <= 0xD7]
    for name, data, reject in (
            ("half of it", ok[:half], cut), ("99 % of it", ok[:len(ok) * 99 // 100], cut), ("one byte of data missing", ok[:-3], cut),
            ("progressive, 30 %", progressive[:len(progressive) * 3 // 10], cut), ("arithmetic, half", arithmetic[:len(arithmetic) // 2], cut),
            ("cut at a restart marker", restart[:marks[3]], cut), ("cut behind a restart marker", restart[:marks[3] + 2], cut),
            ("a restart interval is lost", restart[:marks[3]] + restart[marks[4]:], "corrupt"),
            ("zeros in the data", ok[:half] + bytes(4096) + ok[half + 4096:], "corrupt"),
            ("a sector of zeros", ok[:half] + bytes(512) + ok[half + 512:], "corrupt"),
            ("an early end marker", ok[:half] + b"\xff\xd9", "corrupt"), ("height twice as large", with_height(480), "corrupt"),
            ("height 0", with_height(0), ("corrupt", "unsupported")), ("only the start marker", ok[:2], (cut, "unknown-format")),
            ("start and end", b"\xff\xd8\xff\xd9", "corrupt"),
            ("a segment longer than the file", ok[:2] + b"\xff\xe1\xff\xf0Exif\0\0" + ok[2:], ("corrupt", cut)),
            ("no quantisation tables", ok[:find(ok, 0xDB)] + ok[sof:], "corrupt"),
            ("two frames", ok[:sos] + ok[sof:sof + 19] + ok[sos:], "corrupt")):
        yield Case("E01", name, "jpg", data, reject=reject)
    flipped = ok[:sos + 4000] + bytes([ok[sos + 4000] ^ 0x55]) + ok[sos + 4001:]
    try:
        Image.open(io.BytesIO(flipped)).load()
        yield Case("E11", "a flipped byte that leaves the data legal cannot be told", "jpg", flipped, seen(flipped), vips="damaged")
    except OSError:
        pass
    samsung, jfif = bytearray(ok), bytearray(ok)
    samsung[sos + 2 + struct.unpack(">H", ok[sos + 2:sos + 4])[0] - 2] = 0x3E
    at = ok.index(b"JFIF") + 5
    jfif[at] = jfif[at + 1] = 0
    for name, data, notes in (
            ("bytes before the end marker", ok[:-2] + b"\x12\x34\x56" * 33 + b"\xff\xd9", ("warning",)),
            ("2226 zeros before the end marker", ok[:-2] + bytes(2226) + b"\xff\xd9", ("warning",)),
            ("rows beyond the height, as some scanners write", with_height(160), ("warning",)),
            ("a phone's scan header", bytes(samsung), ("warning",)), ("JFIF version 0.00", bytes(jfif), ("warning",)),
            ("bytes behind the end", ok + bytes(1000) + b"junk" * 100, ("tail-bytes",)), ("two files in one", ok + ok, ("tail-bytes",)),
            ("no end marker", ok[:-2], ("warning",)), ("half an end marker", ok[:-1], ("warning",)),
            ("junk between segments", ok[:find(ok, 0xDB)] + b"junk" + ok[find(ok, 0xDB):], ("warning",)),
            ("no Huffman tables, as in motion JPEG: the standard ones", ok[:find(ok, 0xC4)] + ok[sos:], ()), ("progressive without end marker", progressive[:-2], ("warning",)),
            ("fill bytes before a marker", ok[:sof] + b"\xff\xff\xff" + ok[sof:], ()), ("the control", ok, ())):
        want = seen(data) if "rows beyond" in name else pixels  # the last row has other neighbours
        yield Case("E02", name, "jpg", data, want, notes=notes, absent=("warning",) if not notes else (), mean=4, vips="strict", tol=0,
                   ways=("png", "raw", "jpeg", "webp", "half", "keep"))
    yield Case("E03", "bytes behind the start marker", "jpg", after_soi(ok, b"junk"), reject="unknown-format")
    yield Case("E03", "bytes before the start marker", "jpg", b"\r\n\r\n" + ok, reject="unknown-format")


def jpeg_codings():
    """E07 and E08: samplings, restart markers, progressive, arithmetic, sizes that fill no block."""
    small = gradient(61, 47, 4)
    for factors in FACTORS:
        data = cjpeg(small, "-quality", "95", "-sample", factors)
        yield Case("E08", f"sampling {factors}", "jpg", data, seen(data), mean=5, vips=3)
        turned = with_exif(data, exif(6))
        coarse = "4" in factors or "3" in factors  # there libjpeg repeats chroma, which is smooth here: see chroma()
        yield Case("E08", f"sampling {factors}, turned", "jpg", turned, upright(seen(data), 6), mean=16 if coarse else 5, vips=3)
    for words in (["-restart", "1"], ["-restart", "2B"], ["-progressive"], ["-progressive", "-restart", "1"], ["-arithmetic"],
                  ["-arithmetic", "-progressive"], ["-grayscale"], ["-grayscale", "-arithmetic"], ["-rgb"], ["-rgb", "-progressive"],
                  ["-optimize"], ["-baseline", "-quality", "1"], ["-quality", "100"], ["-smooth", "50"], ["-dct", "fast"]):
        for w, h in ((61, 47), (16, 16), (17, 1), (1, 33)):
            data = cjpeg(np.ascontiguousarray(small[:h, :w]), *words)
            yield Case("E07" if "-arithmetic" in words else "E08", f"{' '.join(words)} {w}x{h}", "jpg", data, seen(data), mean=5, vips=3)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("0;\n1;\n2;\n")
        f.flush()
        data = cjpeg(small, "-scans", f.name)
    yield Case("E08", "baseline in three scans", "jpg", data, seen(data), mean=5, vips=3)
    plain = jpeg(small)
    sof = find(plain, 0xC0)
    for code in (0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF):
        yield Case("E07", f"frame type SOF{code - 0xC0}", "jpg", plain[:sof + 1] + bytes([code]) + plain[sof + 2:], reject="unsupported")
    yield Case("E07", "12 bits", "jpg", plain[:sof + 4] + b"\x0c" + plain[sof + 5:], reject="unsupported")
    lossless = np.ascontiguousarray(small)
    for w, h in itertools.product((1, 2, 7, 8, 9, 15, 16, 17), (1, 8, 9, 17)):
        data = jpeg(np.ascontiguousarray(lossless[:h, :w]), subsampling=2)
        yield Case("E09", f"jpeg {w}x{h} 4:2:0", "jpg", data, seen(data), mean=6, vips=3)


def chroma():
    """E08: where chroma is resampled instead of repeated, the picture is as close to the original as libjpeg's decode."""
    small = gradient(61, 47, 4)
    data = {f: cjpeg(small, "-quality", "95", "-sample", f) for f in FACTORS}
    for i, f in enumerate(FACTORS):
        write(f"chroma/{i}.jpg", with_exif(data[f], exif(6)))
    pack("chroma", "-o", "c", "--codec", "jpeg", "--quality", "100", "--subsampling", "444", "--image", "*", "--classes", "none")
    out = stored("c")
    for i, f in enumerate(FACTORS):
        ours, theirs = psnr(seen(out[f"{i}.jpg"][0]), upright(small, 6)), psnr(seen(data[f]), small)
        print(f"   {f}: {ours:.1f} dB, libjpeg {theirs:.1f} dB")
        report(f"E08 sampling {f}: chroma lies where it was", None if ours > theirs - 1.5 else f"{ours:.1f} dB, libjpeg {theirs:.1f}")


def png_damage():
    a = gradient(64, 48, 2)
    good = png(a)
    at = good.index(b"IDAT")
    n = struct.unpack(">I", good[at - 4:at])[0]
    z = good[at + 4:at + 4 + n]
    raw = zlib.decompress(z)
    with_stream = lambda s, **k: png(a, stream=s, **k)
    adler = z[:-1] + bytes([z[-1] ^ 1])
    text = chunk("tEXt", b"a\0b")
    pal = lambda px, n, **k: png(np.full((4, 4), px), 8, 3, plte=[1, 2, 3] * n, **k)
    for name, data, reject in (
            ("wrong IDAT checksum", png(a, break_crc=True), "corrupt"), ("wrong Adler-32", with_stream(adler), "corrupt"),
            ("60 % of it", good[:len(good) * 6 // 10], "truncated"), ("ends in the header", good[:30], "truncated"),
            ("no image data", good[:33] + good[-12:], "truncated"), ("fewer rows than it says", with_stream(zlib.compress(raw[:-200])), "truncated"),
            ("the stream does not end", with_stream(z[:-6]), "truncated"), ("damaged deflate", with_stream(z[:20] + b"\xff" * 40 + z[60:]), "corrupt"),
            ("filter 7", with_stream(zlib.compress(b"\7" + raw[1:])), "corrupt"), ("a damaged header", good[:20] + b"\1" + good[21:], "corrupt"),
            ("an index beyond the palette", pal(3, 2), "corrupt"), ("a palette of no colours", png(np.zeros((4, 4)), 8, 3, plte=[]), "corrupt"),
            ("no palette", png(np.zeros((4, 4)), 8, 3), "corrupt"), ("an unknown critical chunk", png(a, before=chunk("ABCD", b"")), "unsupported"),
            ("a second header", png(a, before=good[8:33]), "corrupt"), ("rubbish instead of a chunk", png(a, before=b"\0" * 40), "corrupt"),
            ("data that go on for ever", with_stream(zlib.compress(raw + bytes(3 << 20))), "ratio"),
            ("tRNS with a wrong checksum", png(a, before=chunk("tRNS", bytes(6), 1)), "corrupt"),
            ("interlace 2", png(a)[:28] + b"\2" + struct.pack(">I", zlib.crc32(good[12:28] + b"\2")) + good[33:], "corrupt")):
        yield Case("E04", name, "png", data, reject=reject)
    for name, data, notes in (
            ("wrong checksum of an ancillary chunk", png(a, before=chunk("tEXt", b"a\0b", 1)), ("warning",)), ("no IEND", png(a, end=False), ("warning",)),
            ("cut behind the data", png(a, behind=text)[:-20], ("warning",)), ("bytes behind IEND", good + b"x" * 9, ("tail-bytes",)),
            ("more rows than it says", with_stream(zlib.compress(raw + raw[:500])), ("warning",)), ("the control", good, ()),
            ("many small IDAT chunks", good[:33] + b"".join(chunk("IDAT", z[i:i + 3]) for i in range(0, n, 3)) + good[-12:], ())):
        yield Case("E04", name, "png", data, a, notes=notes, absent=() if notes else ("warning",), vips="strict")


def others():
    a = gradient(50, 40, 1)
    for ext, data, cls in (("webp", encoded(a, "WEBP", lossless=True), ("truncated", "corrupt")), ("webp", encoded(a, "WEBP"), ("truncated", "corrupt")),
                           ("gif", encoded(Image.fromarray(a).quantize(64), "GIF"), ("truncated", "corrupt")), ("bmp", encoded(a, "BMP"), "truncated"),
                           ("ppm", encoded(a, "PPM"), "truncated"), ("tif", encoded(a, "TIFF"), "truncated"),
                           ("tif", encoded(a, "TIFF", compression="tiff_lzw"), ("truncated", "corrupt")),
                           ("jp2", encoded(a, "JPEG2000"), ("truncated", "corrupt"))):
        for share in (3, 60, 97):
            yield Case("E04", f"{share} % of a {ext} of {len(data)} bytes", ext, data[:max(8, len(data) * share // 100)], reject=cls)


def limits():
    ok = jpeg(NOISE, quality=90)
    sof = find(ok, 0xC0)
    z = zlib.compressobj(9)
    stream = b"".join(z.compress(bytes(12501)) for _ in range(2000)) + z.flush()
    bomb = b"\x89PNG\r\n\x1a\n" + chunk("IHDR", struct.pack(">IIBBBBB", 100000, 100000, 1, 0, 0, 0, 0)) + chunk("IDAT", stream) + chunk("IEND", b"")
    yield Case("E05", "a PNG of 10 Gpx in 24 kB", "png", bomb, reject="too-many-pixels")
    yield Case("E05", "a JPEG that says 65500 x 65500", "jpg", ok[:sof + 5] + struct.pack(">HH", 65500, 65500) + ok[sof + 9:], reject="too-many-pixels")
    gray = cjpeg(gradient(64, 64), "-grayscale", "-progressive")
    last = gray.rindex(b"\xff\xda")
    scan = gray[last:-2]
    yield Case("E06", "a progressive JPEG of 1000 scans", "jpg", gray[:-2] + scan * 1000 + b"\xff\xd9", reject="too-many-scans")
    many = bytearray(gray[:-2] + scan * 40 + b"\xff\xd9")
    at = find(bytes(many), 0xC2)
    many[at + 5:at + 9] = struct.pack(">HH", 13000, 13000)
    yield Case("E06", "40 scans of 169 Mpx", "jpg", bytes(many), reject="too-many-scans")
    yield Case("E09", "a side of 70000", "png", png(np.zeros((1, 70000), np.uint8)), reject="too-many-pixels")
    flat = np.full((2, 4000, 3), 77, np.uint8)
    yield Case("E09", "4000x2", "png", png(flat), flat)
    yield Case("E09", "2x4000", "png", png(flat.swapaxes(0, 1)), flat.swapaxes(0, 1))
    yield Case("E09", "1x1", "png", png(np.uint8([[[9, 8, 7]]])), np.uint8([[[9, 8, 7]]]))
    wide = np.tile(np.uint8([[[1, 2, 3]]]), (1, 17000, 1))
    yield Case("E09", "17000x1, too wide for WebP", "png", png(wide), wide, ways=("png", "raw", "jpeg", "half", "keep"))


def damaged():
    run_table([*jpeg_damage(), *png_damage(), *others()])


def codings():
    run_table([*jpeg_codings()])


def limited():
    cases = [*limits()]
    run_table(cases)
    bombs = [c for c in cases if c.reject]
    for i, c in enumerate(bombs):
        write(f"bombs/{i}.{c.ext}", c.data)
    start = time.monotonic()
    pack("bombs", "-o", "b", "--image", "*", code=3)
    # test/pack/bombs.py measures what each costs against the catalogue's 50 ms and 64 MB
    report("E05 bombs are told by their headers, at once", None if time.monotonic() - start < 30 else f"{time.monotonic() - start:.1f} s")
    write("wide/a.png", png(np.tile(np.uint8([[[1, 2, 3]]]), (1, 17000, 1))))
    pack("wide", "-o", "w", "--codec", "webp", "--image", "*", code=3)
    r = rejects("w")
    report("E09 too wide for WebP is a reject", None if [x["class"] for x in r.values()] == ["too-many-pixels"] else r)
    write("tiny/a.png", png(np.full((2, 4000, 3), 77, np.uint8)))
    write("tiny/b.png", png(np.uint8([[[9, 8, 7]]])))
    pack("tiny", "-o", "t", "--resize", "512", "--codec", "png", "--image", "*", "--classes", "none")
    sizes = {p: (f["width"], f["height"]) for p, (_, f) in stored("t").items()}
    report("E09 4000x2 becomes 512x1, 1x1 stays", None if sizes == {"a.png": (512, 1), "b.png": (1, 1)} else sizes)
    a = png(gradient(40, 30))
    for i in range(60):
        write(f"many/{i:02d}.jpg", jpeg(NOISE)[:-500 - i] if i % 3 == 0 else jpeg(NOISE))
        write(f"many/{i:02d}p.png", a[:-40] if i % 5 == 0 else a)
    p = pack("many", "-o", "m", "--codec", "png", "--image", "*", "-v", "-j", "4", code=3)
    named = sorted(line.split(":")[1].strip() for line in p.err.splitlines() if line.startswith("reject:"))
    want = sorted([f"many/{i:02d}.jpg" for i in range(0, 60, 3)] + [f"many/{i:02d}p.png" for i in range(0, 60, 5)])
    report("E12 each reject of four workers names its file", None if named == want else (named, want))


if __name__ == "__main__":
    main(damaged, codings, chroma, limited)
