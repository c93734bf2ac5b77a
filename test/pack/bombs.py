# SPDX-License-Identifier: Apache-2.0
"""Images that claim far more than they are: rejected by their headers. What a run over one costs beyond a run over a small image is measured
(child CPU time and peak memory, the best of three)."""
import io
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image

from _frame import IN_PROCESS, SLIMSET, jpeg, ls, main, members, pack, picture, rejects, write

CPU_S, BYTES = 0.05, 64 << 20
SLACK_S = 0.05  # of the measuring itself, on a machine that is busy


def chunk(t, d):
    return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))


def png(w, h, interlaced=0, extra=b""):
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, interlaced)) + extra + \
        chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9)) + chunk(b"IEND", b"")


def sized(data, w, h):
    """A JPEG whose frame header says w x h."""
    at = next(i for i in range(len(data)) if data[i:i + 2] in (b"\xff\xc0", b"\xff\xc2"))
    return data[:at + 5] + struct.pack(">HH", h, w) + data[at + 9:]


def scans(n):
    """A progressive JPEG whose last scan is there n times."""
    data = jpeg(picture(64, 64, 1), progressive=True)
    at = data.rindex(b"\xff\xda")
    return data[:at] + data[at:-2] * n + b"\xff\xd9"


def with_chunks(extra):
    b = io.BytesIO()
    Image.fromarray(picture(64, 64)).save(b, "PNG")
    return b.getvalue()[:33] + extra + b.getvalue()[33:]


def saved(kind, **k):
    b = io.BytesIO()
    Image.fromarray(picture(64, 64)).save(b, kind, **k)
    return b.getvalue()


def put(data, word, at, value, which=0):
    """The bytes with others at a distance from the which-th place of a word."""
    i = -1
    for _ in range(which + 1):
        i = data.index(word, i + 1)
    return data[:i + at] + value + data[i + at + len(value):]


def giants():
    """{name: bytes} of small files whose headers claim a giant picture, in the formats that libvips reads."""
    tiff, gif, webp, lossless, jp2 = saved("TIFF"), saved("GIF"), saved("WEBP"), saved("WEBP", lossless=True), saved("JPEG2000")
    side = struct.pack(">II", 60000, 60000)
    vp8x = b"RIFF" + struct.pack("<I", len(webp) + 10) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff" * 6 + webp[12:]
    entry = lambda tag: struct.pack("<HHI", tag, 4, 1)
    long = tiff
    for tag in (256, 257):
        i = long.index(struct.pack("<H", tag) + b"\4\0\1\0\0\0") if entry(tag) in long else long.index(struct.pack("<H", tag) + b"\3\0\1\0\0\0")
        long = long[:i] + entry(tag) + struct.pack("<I", 60000) + long[i + 12:]
    return {"giant.tif": long, "giant.gif": gif[:6] + b"\xff" * 4 + gif[10:],
            "giant.webp": put(webp, b"\x9d\x01\x2a", 3, struct.pack("<HH", 16383, 16383)),
            "giant_lossless.webp": put(lossless, b"VP8L", 9, struct.pack("<I", 16382 | 16382 << 14)),
            "giant_canvas.webp": vp8x,
            "giant.jp2": put(put(jp2, b"ihdr", 4, side), b"\xff\x51", 6, side)}


# A process begins with the peak of the one that started it: a small one starts slimset, not this one with its pictures.
STARTER = """import os, resource, sys
null = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
_, status, used = os.wait4(pid, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))"""


def spent(name, data, options=()):
    best_s, best_bytes, code = 99.0, 1 << 60, None
    for i in range(3):
        folder, out = f"{name}.src{i}", f"{name}.out{i}"
        write(f"{folder}/{name}", data)
        words = subprocess.run([sys.executable, "-ISc", STARTER, SLIMSET, "pack", folder, "-o", out, "--resize", "64", "--in-process", "-q",
                                "--image", "*", *options], stdout=subprocess.PIPE, check=True).stdout.split()
        best_s, best_bytes, code = min(best_s, float(words[0])), min(best_bytes, int(words[1])), int(words[2])
        os.unlink(f"{folder}/{name}")
    return best_s, best_bytes, code, out


def judge(name, data, base, options=()):
    """What the file costs beyond the base: an exit status and the folder of the output."""
    s, n, code, out = spent(name, data, options)
    print("  %-20s %9d bytes: %6.1f ms, %5.1f MB more" % (name, len(data), 1000 * (s - base[0]), (n - base[1]) / 1e6))
    assert s - base[0] < CPU_S + SLACK_S and n - base[1] < BYTES, (name, s - base[0], n - base[1])
    return code, out


def test_bombs_are_rejected_by_their_headers():
    base = jpeg(picture(64, 64))
    empty = spent("small.jpg", base)
    assert empty[2] == 0
    bombs = {"plain.png": (png(30000, 30000), "too-many-pixels"), "interlaced.png": (png(30000, 30000, 1), "too-many-pixels"),
             "large.png": (png(65535, 65535), "too-many-pixels"), "large.jpg": (sized(base, 48010, 16173), "too-many-pixels"),
             "scans.jpg": (scans(1000), "too-many-scans"),
             "giant.bmp": (b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 60000, 60000, 1, 24, 0, 0, 0, 0, 0, 0), "too-many-pixels"),
             "giant.ppm": (b"P6\n60000 60000\n255\n" + bytes(99), "too-many-pixels")}
    for name, (data, reason) in bombs.items():
        code, out = judge(name, data, empty)
        assert code == 3 and {r["class"] for r in rejects(out).values()} == {reason}, (name, rejects(out))


def test_giant_headers_of_the_formats_that_libvips_reads():
    """What starting libvips costs is taken off: by a small TIFF."""
    small = spent("small.tif", saved("TIFF"))
    assert small[2] == 0
    for name, data in giants().items():
        code, out = judge(name, data, small)
        assert code == 3 and {r["class"] for r in rejects(out).values()} == {"too-many-pixels"}, (name, rejects(out))


def test_metadata_that_are_bombs():
    """They are no reason to refuse a picture: they are not unpacked beyond a limit, and not kept."""
    empty = spent("small.png", with_chunks(b""))
    huge = zlib.compress(bytes(64 << 20), 9)
    for name, chunks in (("texts.png", chunk(b"tEXt", b"k\0v") * 100000), ("text.png", chunk(b"zTXt", b"k\0\0" + huge)),
                         ("profile.png", chunk(b"iCCP", b"p\0\0" + huge))):
        code, out = judge(name, with_chunks(chunks), empty)
        (f,) = [f for s in ls(out) for f in s["fields"]]
        assert code == 0 and f["bytes"] < 30000 and (f["width"], f["height"]) == (64, 64), f


def test_a_profile_of_64_megabytes_is_ignored_and_said():
    """Also where it is as large as the file: memory may be some times the file's there, but the picture is not refused, nor the run stopped."""
    write("src/a.png", with_chunks(chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(64 << 20), 9))))
    write("src/b.webp", saved("WEBP", lossless=True, icc_profile=bytes(66 << 20)))
    write("src/c.tif", saved("TIFF", icc_profile=bytes(66 << 20)))
    write("src/d.jpg", saved("JPEG", quality=95, icc_profile=bytes(14 << 20)))
    pack("src", "-o", "out", "--codec", "png", "--color", "srgb", "--image", "*", "--no-detect", "--classes", "none")
    data = members("out")
    for s in ls("out"):
        (f,) = s["fields"]
        got = np.asarray(Image.open(io.BytesIO(data[f"{s['key']}.png"])))
        want = picture(64, 64) if f["path"] != "d.jpg" else np.asarray(Image.open("src/d.jpg"))
        assert "profile-bad" in f["notes"] and "profile-used" not in f["notes"], f
        assert np.array_equal(got, want), f["path"]
    assert len(data) == 4


if IN_PROCESS:
    print("skip bombs: a sanitizer costs more than what is measured")
    sys.exit(0)
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
