#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile trees and archives: nothing is written outside OUT, nothing that is no file is opened, bombs stop in bounded memory."""
import io
import os
import resource
import socket
import stat
import struct
import subprocess
import tarfile
import zipfile
import zlib

from _frame import IN_PROCESS, SLIMSET, jpeg, main, members, pack, picture, rejects, write


def everything(folder="."):
    """{path: what it is} of all that lies here but for out."""
    found = {}
    for d, dirs, names in os.walk(folder):
        if d == folder and "out" in dirs:
            dirs.remove("out")
        for n in dirs + names:
            p = os.path.join(d, n)
            s = os.lstat(p)
            data = open(p, "rb").read() if stat.S_ISREG(s.st_mode) else os.readlink(p) if stat.S_ISLNK(s.st_mode) else s.st_mode
            found[p] = (data, s.st_mtime_ns)
    return found


def test_names_that_lead_out():
    os.makedirs("work/src")
    os.chdir("work")
    picture_bytes = jpeg(picture(32, 24))
    evil = ["../up.jpg", "a/../../up2.jpg", "/tmp/slimset-outside.jpg", "C:\\x.jpg", "n\0ul.jpg", "..", "x" * 4090 + ".jpg"]
    with zipfile.ZipFile("src/z.zip", "w") as z:
        for n in evil + ["good.jpg"]:
            info = zipfile.ZipInfo("placeholder")
            info.filename = n
            z.writestr(info, picture_bytes)
    with tarfile.open("src/t.tar", "w", format=tarfile.PAX_FORMAT) as t:
        for n in [e for e in evil if "\0" not in e] + ["good.jpg"]:
            info = tarfile.TarInfo(n)
            info.size = len(picture_bytes)
            t.addfile(info, io.BytesIO(picture_bytes))
        for n, kind in (("link.jpg", tarfile.SYMTYPE), ("fifo.jpg", tarfile.FIFOTYPE), ("dev.jpg", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(n)
            info.type, info.linkname = kind, "/etc/passwd"
            t.addfile(info)
    before = everything("..")
    for layout in ("shards", "tree"):
        p = pack("src/z.zip", "src/t.tar", "-o", "../out", "--to", layout, "--force", code=3)
        assert everything("..") == before, layout
        named = " ".join(rejects("../out"))
        for n in ("up.jpg", "up2.jpg", "link.jpg", "fifo.jpg", "dev.jpg"):
            assert n in named, (n, named, p.err)
    assert not os.path.exists("/tmp/slimset-outside.jpg")


def test_no_fifo_socket_or_proc_is_opened():
    write("src/a/good.jpg", jpeg(picture(32, 24)))
    os.mkfifo("src/a/fifo.jpg")  # opening it for reading would wait for ever
    s = socket.socket(socket.AF_UNIX)
    s.bind("src/a/socket.jpg")
    os.symlink("/proc/self/mem", "src/a/mem.jpg")
    os.symlink("/dev/zero", "src/a/zero.jpg")
    os.symlink("loop.jpg", "src/a/loop.jpg")
    os.symlink("..", "src/a/up")
    before = everything()
    pack("src", "-o", "out", code=3)
    assert everything() == before
    bad = rejects("out")
    for n in ("fifo", "socket", "zero", "loop"):
        assert f"a/{n}.jpg" in bad, (n, bad)
    assert bad["a/fifo.jpg"]["class"] == "not-regular", bad["a/fifo.jpg"]
    assert len([m for m in members("out") if m.endswith(".jpg")]) == 1
    s.close()


def limited(*args):
    """slimset with 3 GB of address space in the coordinator; peak memory of it and its workers in bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    p = subprocess.run([SLIMSET, *args, *(["--in-process"] if IN_PROCESS else [])], capture_output=True, timeout=200)
    return p, max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024


def test_zip_bombs():
    os.mkdir("src")
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        z.writestr("zeros.jpg", bytes(200 << 20))  # 1029 : 1
    with zipfile.ZipFile("src/nested.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for i in range(16):
            z.writestr(f"{i}.zip", inner.getvalue())
        z.writestr("good.jpg", jpeg(picture(32, 24)))
    p, memory = limited("pack", "src/nested.zip", "-o", "out")
    assert p.returncode in (0, 2, 3) and memory < 1500 << 20, (p.returncode, memory, p.stderr[-400:])
    # entries that share their bytes: each a reject but the first
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = data.compress(bytes(1 << 20)) + data.flush()
    crc = zlib.crc32(bytes(1 << 20))
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 8, 0, 0, crc, len(packed), 1 << 20, 5, 0) + b"0.jpg"
    central = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 0, crc, len(packed), 1 << 20, 9, 0, 0, 0, 0, 0, 0) +
                       b"%05d.jpg" % i for i in range(2000))
    body = local + packed
    write("src/overlap.zip", body + central + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 2000, 2000, len(central), len(body), 0))
    pack("src/overlap.zip", "-o", "out2", code=3)
    assert sum(r["class"] == "ratio" for r in rejects("out2").values()) >= 1999
    # ten million entries, by the header only
    write("src/many.zip", struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 65535, 65535, 0xffffffff, 0, 0))
    p, memory = limited("pack", "src/many.zip", "-o", "out3")
    assert p.returncode in (2, 3) and memory < 1500 << 20, (p.returncode, memory)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
