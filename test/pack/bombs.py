# SPDX-License-Identifier: Apache-2.0
"""Images that claim far more than they are: rejected by their headers. What a run over one costs beyond a run over a small image is measured
(child CPU time and peak memory, the best of three)."""
import os
import struct
import zlib

from _frame import IN_PROCESS, SLIMSET, jpeg, main, picture, rejects, write

CPU_S, BYTES = 0.05, 64 << 20
SLACK_S = 0.05  # of the measuring itself, on a machine that is busy


def png(w, h, interlaced=0, extra=b""):
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
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


def spent(name, data):
    best_s, best_bytes = 99.0, 1 << 60
    for i in range(3):
        folder, out = f"{name}.src{i}", f"{name}.out{i}"
        write(f"{folder}/{name}", data)
        pid = os.posix_spawn(SLIMSET, [SLIMSET, "pack", folder, "-o", out, "--resize", "64", "--in-process", "-q", "--image", "*"],
                             os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                                                       (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
        _, status, used = os.wait4(pid, 0)
        best_s = min(best_s, used.ru_utime + used.ru_stime)
        best_bytes = min(best_bytes, used.ru_maxrss * 1024)
    return best_s, best_bytes, os.waitstatus_to_exitcode(status), out


def test_bombs_are_rejected_by_their_headers():
    if IN_PROCESS:
        print("skip test_bombs_are_rejected_by_their_headers: a sanitizer costs more than what is measured")
        return
    base = jpeg(picture(64, 64))
    empty_s, empty_bytes, code, _ = spent("small.jpg", base)
    assert code == 0
    bombs = {"plain.png": (png(30000, 30000), "too-many-pixels"), "interlaced.png": (png(30000, 30000, 1), "too-many-pixels"),
             "large.png": (png(65535, 65535), "too-many-pixels"), "large.jpg": (sized(base, 48010, 16173), "too-many-pixels"),
             "scans.jpg": (scans(1000), "too-many-scans"),
             "giant.bmp": (b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 60000, 60000, 1, 24, 0, 0, 0, 0, 0, 0), "too-many-pixels"),
             "giant.ppm": (b"P6\n60000 60000\n255\n" + bytes(99), "too-many-pixels")}
    for name, (data, reason) in bombs.items():
        s, n, code, out = spent(name, data)
        print("  %-15s %5.1f ms, %5.1f MB more" % (name, 1000 * (s - empty_s), (n - empty_bytes) / 1e6))
        assert code == 3 and {r["class"] for r in rejects(out).values()} == {reason}, (name, rejects(out))
        assert s - empty_s < CPU_S + SLACK_S and n - empty_bytes < BYTES, (name, s - empty_s, n - empty_bytes)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
