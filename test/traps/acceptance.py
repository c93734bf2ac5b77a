# SPDX-License-Identifier: Apache-2.0
"""doc/acceptance.md, walked row by row: every message of libjpeg and of slimset's PNG reader, the file that brings it up,
and the verdict. djpeg is asked whether libjpeg really says so of that file; the tables must have every message there is."""
import glob
import os
import re
import struct
import subprocess
import zlib

import numpy as np

from _table import main, report
from _make import after_soi, chunk, cjpeg, gradient, jpeg, png, segment
from _frame import ls, pack, rejects, write

ROOT = os.environ.get("SLIMSET_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
A = gradient(96, 80, 2)
NOISE = np.clip(A.astype(int) + np.random.default_rng(5).integers(-40, 41, A.shape), 0, 255).astype(np.uint8)
OK = jpeg(NOISE, quality=90, subsampling=2)
PROGRESSIVE = jpeg(NOISE, quality=90, progressive=True)
ARITHMETIC = cjpeg(NOISE, "-arithmetic")
RESTART = cjpeg(NOISE, "-restart", "1")
SOF, SOS, DQT, DHT = (OK.index(b"\xff" + bytes([m])) for m in (0xC0, 0xDA, 0xDB, 0xC4))


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


def says(data):
    """Everything libjpeg has to say while djpeg decodes."""
    p = subprocess.run(["djpeg", "-verbose", "-verbose", "-verbose", "-outfile", "/dev/null"], input=data, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)
    return p.stderr.decode(errors="replace")


def search(data, text, rounds=3000):
    """The first flip of scan bytes that makes libjpeg say so before anything else."""
    r = np.random.default_rng(3)
    start = data.index(b"\xff\xda") + 14
    for _ in range(rounds):
        b = bytearray(data)
        for at in r.integers(start, len(data) - 2, 2):
            b[at] = int(r.integers(0, 255))
        warnings = [x for x in says(bytes(b)).splitlines() if "orrupt" in x or "Inconsistent" in x or "nvalid" in x]
        if warnings and text in warnings[0]:
            return bytes(b)
    raise AssertionError(f"no file found for {text!r}")


def jpeg_files():
    scan = bytearray(OK)
    scan[SOS + 2 + struct.unpack(">H", OK[SOS + 2:SOS + 4])[0] - 2] = 0x3E
    jfif = OK.index(b"JFIF") + 5
    rgb = cjpeg(A, "-rgb")
    adobe = rgb.index(b"Adobe") + 11
    marks = [i for i in range(len(RESTART) - 1) if RESTART[i] == 0xFF and 0xD0 <= RESTART[i + 1] <= 0xD7]
    spectral = PROGRESSIVE.rindex(b"\xff\xda")
    component = 2 + struct.unpack(">H", OK[SOS + 2:SOS + 4])[0]
    sof_of = lambda w, h, parts: segment(0xC0, struct.pack(">BHHB", 8, h, w, len(parts)) + b"".join(bytes([k + 1, f, 0]) for k, f in enumerate(parts)))
    with_frame = lambda frame: OK[:SOF] + frame + OK[SOF + 19:]
    half = len(OK) // 2
    return {
        "junk before the end": OK[:-2] + b"\x12\x34\x56" * 33 + b"\xff\xd9",
        "zeros in the scan": OK[:half] + bytes(600) + OK[half + 600:-2] + OK[half:half + 3000] + b"\xff\xd9",
        "JFIF 0.00": patched(OK, jfif, b"\0\0"), "Samsung SOS": bytes(scan), "Adobe transform 7": patched(rgb, adobe, b"\7"),
        "no end marker": OK[:-2], "cut in the scan": OK[:half], "early end marker": OK[:half] + b"\xff\xd9",
        "bad Huffman code": lambda: search(OK, "bad Huffman code"), "bad arithmetic code": lambda: search(ARITHMETIC, "bad arithmetic code"),
        "restart marker lost": RESTART[:marks[1]] + RESTART[marks[3]:], "a scan refined twice": PROGRESSIVE[:-2] + PROGRESSIVE[spectral:],
        "SOF3": patched(OK, SOF + 1, b"\xc3"), "12 bits": patched(OK, SOF + 4, b"\x0c"),
        "eleven components": with_frame(sof_of(96, 80, [0x11] * 11)),
        "components of 2/3": with_frame(sof_of(96, 80, [0x31, 0x21, 0x11])),
        "no quantisation tables": OK[:DQT] + OK[SOF:], "Huffman table 3": patched(OK, SOS + 6, b"\x33"),
        "codes that overlap": OK[:DHT] + segment(0xC4, b"\0\3" + bytes(15) + bytes(3)) + OK[SOS:],
        "DHT number 9": OK[:DHT] + segment(0xC4, b"\x09\1" + bytes(15) + b"\0") + OK[DHT:],
        "DQT number 9": OK[:DQT] + segment(0xDB, b"\x09" + bytes([1] * 64)) + OK[DQT:],
        "DAC number 99": ARITHMETIC[:2] + segment(0xCC, b"\x63\1") + ARITHMETIC[2:], "DAC value": ARITHMETIC[:2] + segment(0xCC, b"\0\x0f") + ARITHMETIC[2:],
        "DRI of 5 bytes": after_soi(OK, segment(0xDD, b"\0\0\0\0\0")), "sampling factor 0": patched(OK, SOF + 11, b"\x01"),
        "SOS of an unknown component": patched(OK, SOS + 5, b"\x77"), "MCU of 18 blocks": with_frame(sof_of(96, 80, [0x44, 0x11, 0x11])),
        "progressive parameters": patched(PROGRESSIVE, PROGRESSIVE.index(b"\xff\xda") + 2 + 3 + 2 * 3, b"\5"),
        "height 0": patched(OK, SOF + 5, b"\0\0"), "width 65535": patched(OK, SOF + 7, b"\xff\xff"),
        "tables only": OK[:SOF] + b"\xff\xd9", "no start marker": OK[2:], "two frames": OK[:SOS] + OK[SOF:SOF + 19] + OK[SOS:],
        "frame without scan": OK[:SOS] + b"\xff\xd9", "start marker twice": OK[:DQT] + b"\xff\xd8" + OK[DQT:],
        "scan before the frame": OK[:SOF] + OK[SOS:], "marker FFBF": OK[:DQT] + segment(0xBF, b"abc") + OK[DQT:], "no bytes": b"",
        "marker FF02": OK[:DQT] + b"\xff\x02\0\4ab" + OK[DQT:],
    }


def png_files():
    a = gradient(64, 48, 2)
    good = png(a)
    at = good.index(b"IDAT")
    z = good[at + 4:at + 4 + struct.unpack(">I", good[at - 4:at])[0]]
    raw = zlib.decompress(z)
    stream = lambda s, **k: png(a, stream=s, **k)
    header = lambda w, h, *rest: good[:8] + chunk("IHDR", struct.pack(">II", w, h) + bytes(rest)) + good[33:]
    flat = np.zeros((4, 4), np.uint8)
    palette = lambda **k: png(flat, 8, 3, **k)
    plte = chunk("PLTE", bytes(6))
    trns = chunk("tRNS", bytes(6))
    return {
        "another chunk first": good[:8] + chunk("gAMA", bytes(4)) + good[8:], "wrong CRC of IHDR": patched(good, 29, bytes(4)),
        "colour type 5": header(64, 48, 8, 5, 0, 0, 0), "a width over 2^31": header(0x80000001, 48, 8, 2, 0, 0, 0),
        "wrong CRC of PLTE": palette(before=chunk("PLTE", bytes(6), 1)), "PLTE twice": palette(plte=[0] * 6, before=plte),
        "PLTE behind the data": palette(behind=plte), "PLTE of 7 bytes": palette(before=chunk("PLTE", bytes(7))),
        "tRNS twice": png(a, before=trns + trns), "wrong CRC of tRNS": png(a, before=chunk("tRNS", bytes(6), 1)),
        "a chunk between the IDATs": good[:33] + chunk("IDAT", z[:9]) + chunk("tEXt", b"a\0b") + chunk("IDAT", z[9:]) + good[-12:],
        "no IDAT": good[:33] + good[-12:], "no PLTE": palette(), "a damaged signature": good[:6] + b"X" + good[7:], "20 bytes": good[:20],
        "rubbish for a chunk": png(a, before=bytes(40)), "cut in IDAT": good[:len(good) * 6 // 10], "IHDR twice": png(a, before=good[8:33]),
        "an unknown critical chunk": png(a, before=chunk("ABCD", b"")), "a stream that does not end": stream(z[:-6]),
        "wrong CRC of IDAT": png(a, break_crc=True), "no zlib header": stream(b"\x79" + z[1:]), "wrong Adler-32": stream(z[:-1] + bytes([z[-1] ^ 1])),
        "damaged deflate": stream(z[:2] + b"\xff" * 30 + z[32:]), "200 bytes too few": stream(zlib.compress(raw[:-200])),
        "3 MiB too many": stream(zlib.compress(raw + bytes(3 << 20))), "filter 7": stream(zlib.compress(b"\7" + raw[1:])),
        "an index beyond the palette": png(flat + 3, 8, 3, plte=[0] * 6), "a picture of 64 Mpx in 100 bytes": header(8000, 8000, 8, 2, 0, 0, 0)[:33] +
        chunk("IDAT", zlib.compress(bytes(9000))) + good[-12:],
        "a profile without a name": png(a, before=chunk("iCCP", b"p" * 90)),
        "a profile of 5 MiB": png(a, before=chunk("iCCP", b"p\0\0" + zlib.compress(bytes(5 << 20)))),
    }


def rows(title):
    """[(cell, ...)] of the table under a heading of doc/acceptance.md."""
    with open(os.path.join(ROOT, "doc/acceptance.md")) as f:
        part = f.read().split(f"## {title}\n")[1].split("\n## ")[0]
    return [[c.strip() for c in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")][2:]


def walk(title, files, ext, check_text, words=()):
    wanted = rows(title)
    used = set()
    for code, text, verdict, name in wanted:
        if name.startswith("none"):
            continue
        used.add(name)
        data = files[name]() if callable(files[name]) else files[name]
        write(f"src/{name}.{ext}", data)
        files[name] = data
    report(f"{title}: no file is left over", set(files) - used)
    pack("src", "-o", "out", "--codec", "raw", "--image", "*", "--classes", "none", "--shards", "1", *words, "--max-rejects", "100%", code=None)
    refused = rejects("out")
    notes = {f["path"]: f["notes"] for s in ls("out") for f in s["fields"] if f["path"]}
    for code, text, verdict, name in wanted:
        path = f"{name}.{ext}"
        if not os.path.exists(f"src/{path}"):
            continue
        problem = check_text(text.strip("`"), files[name], refused.get(path))
        classes = set(re.findall(r"`([a-z-]+)`", verdict))
        if "accepted" in verdict:
            if path in refused:
                problem = problem or f"rejected: {refused[path]}"
            elif not classes <= set(notes[path]):
                problem = problem or f"notes {notes[path]}"
        elif path not in refused:
            problem = problem or "was accepted"
        elif refused[path]["class"] not in classes:
            problem = problem or f"rejected as {refused[path]['class']}: {refused[path]['reason']}"
        report(f"{code}: {name}", problem)


def jpeg_codes():
    def check_text(text, data, reject):
        return None if text in says(data) else f"libjpeg does not say {text!r}: {says(data)[-300:]}"

    walk("JPEG", jpeg_files(), "jpg", check_text)
    header = next(h for h in glob.glob("/usr/include/jerror.h") + glob.glob("/usr/include/*/jerror.h"))
    with open(header) as f:
        codes = set(re.findall(r"J(?:WRN|ERR)_[A-Z0-9_]+(?=,\s*\")", f.read()))
    listed = {c for row in rows("JPEG") + rows("JPEG: what no file can bring up") for c in re.findall(r"J(?:WRN|ERR)_[A-Z0-9_]+", row[0])}
    report("JPEG: every code of jerror.h has a verdict", codes - listed)


def png_codes():
    def check_text(text, data, reject):
        pattern = ".*".join(map(re.escape, re.split(r"%[.0-9lz]*[a-z]", text)))
        # A file without the signature never comes to the PNG reader.
        fits = reject is None or reject["class"] == "unknown-format" or re.search(pattern, reject["reason"])
        return None if fits else f"says {reject['reason']!r}"

    walk("PNG", png_files(), "png", check_text, ["--color", "srgb"])
    there = set()
    for name in ("png_chunks.c", "png_read.c"):
        with open(os.path.join(ROOT, "src", name)) as f:
            for call in re.findall(r"err_bad\((.*?)\);", f.read(), re.S):
                there.add("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call)))
    listed = {row[1].strip("`") for row in rows("PNG")}
    report("PNG: every message of the reader has a verdict", there - listed)
    report("PNG: every message of the table is in the reader", listed - there - {""})


if __name__ == "__main__":
    main(jpeg_codes, png_codes)
