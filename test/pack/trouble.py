# SPDX-License-Identifier: Apache-2.0
"""Bad input and trouble: each has a defined outcome, a message that names the file, and loses nothing.
Runs with SLIMSET_IN_PROCESS as well."""
import io
import os
import shutil
import socket
import subprocess
import threading
import time

import numpy as np
from PIL import Image

from _frame import SLIMSET, files, jpeg, ls, main, members, pack, photos, picture, rejects, run, save, write


def test_sources_that_make_no_sense():
    os.mkdir("empty")
    p = pack("empty", "-o", "out", code=2)
    assert "empty" in p.err
    write("text/readme.txt", b"hello\n")
    p = pack("text", "-o", "out2", code=2)
    assert "no image" in p.err, p.err
    p = pack("absent", "-o", "out3", code=2)
    assert "absent" in p.err, p.err
    photos("src", 4)
    for out in ("src", "src/out", "src/cat/deep/out"):
        p = pack("src", "-o", out, code=2)
        assert "source" in p.err, (out, p.err)
    p = pack("src/cat", "-o", "src", code=2)
    assert p.err
    write("full/file", b"mine")
    p = pack("src", "-o", "full", code=2)
    assert "not empty" in p.err and open("full/file", "rb").read() == b"mine"
    write("afile", b"x")
    p = pack("src", "-o", "afile", code=2)
    assert "not a folder" in p.err, p.err


def test_one_bad_file_never_stops_a_run():
    photos("src", 8)
    good = jpeg(picture(320, 240, 5))
    write("src/cat/empty.jpg", b"")
    write("src/cat/half.jpg", good[:len(good) // 2])
    write("src/cat/page.jpg", b"<!DOCTYPE html><html><body>404</body></html>")
    write("src/cat/lfs.jpg", b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n" % 0)
    write("src/dog/vector.jpg", b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>')
    write("src/dog/noise.jpg", bytes(range(256)) * 20)
    write("src/dog/flip.jpg", good[:700] + b"\xff\xd9\x00" + good[900:])
    p = pack("src", "-o", "out", "--resize", "96", code=3)
    got = {k: v["class"] for k, v in rejects("out").items()}
    assert got["cat/empty.jpg"] == "empty" and got["cat/half.jpg"] == "truncated" and got["cat/page.jpg"] == "html"
    assert got["cat/lfs.jpg"] == "lfs-pointer" and got["dog/vector.jpg"] == "not-allowed"
    assert got["dog/noise.jpg"] == "unknown-format" and "dog/flip.jpg" in got, got
    assert len(got) == 7 and len(ls("out")) == 8
    for name in got:
        assert name in p.err, name
    # lossless, the same: nothing passes silently
    pack("src", "-o", "kept", code=3)
    assert rejects("kept").keys() == got.keys()
    # a rerun keeps what it knows and still exits 3
    p = pack("src", "-o", "out", "--resize", "96", code=3)
    assert "0 written" in p.out
    run("verify", "out", "--decode", code=0)


def test_budget_of_rejects():
    photos("src", 20)
    for i in range(3):
        write(f"src/cat/bad{i}.jpg", b"\xff\xd8\xff")
    pack("src", "-o", "a", "--max-rejects", "3", code=0)
    pack("src", "-o", "b", "--max-rejects", "20%", code=0)
    p = pack("src", "-o", "c", "--max-rejects", "2", code=1)
    assert "max-rejects" in p.err and not os.path.exists("c/slimset.index")
    p = pack("src", "-o", "d", "--strict", code=1)
    assert "--strict" in p.err
    pack("src", "-o", "c", "--max-rejects", "5", code=0)  # the run goes on from there
    assert files("c") == files("a")


def test_odd_trees():
    photos("src", 4)
    os.mkfifo("src/cat/pipe.jpg")
    s = socket.socket(socket.AF_UNIX)
    s.bind("src/cat/sock.jpg")
    os.symlink("..", "src/cat/loop")
    os.symlink("nowhere", "src/cat/dangling.jpg")
    os.symlink("0000.jpg", "src/cat/link.jpg")
    os.makedirs("src/cat/dir.jpg")
    write("src/cat/.DS_Store", b"x")
    write("src/__MACOSX/cat/._0000.jpg", b"x")
    write("outside/far.jpg", jpeg(picture(60, 50, 77)))
    os.symlink("../outside", "src/linked")
    pack("src", "-o", "out", code=3)
    got = {k: v["class"] for k, v in rejects("out").items()}
    assert got == {"cat/pipe.jpg": "not-regular", "cat/sock.jpg": "not-regular", "cat/dangling.jpg": "link"}, got
    keys = {s["key"] for s in ls("out")}
    assert "cat/link" in keys and "linked/far" in keys and len(keys) == 6, keys
    pack("src", "-o", "nofollow", "--no-follow", code=3)
    assert "cat/link" not in {s["key"] for s in ls("nofollow")}
    s.close()


def test_names_come_back_exactly():
    names = [b"plain.jpg", b"with blank.jpg", b"new\nline.jpg", b"tab\t.jpg", b"'quote\".jpg", b"-dash.jpg", b"comma,.jpg",
             b"\xff\xfe latin.jpg", "umläut.jpg".encode(), b"a.b.c.jpg", b"...dots.jpg", b".hidden.jpg", b"__under.jpg",
             b"x" * 240 + b".jpg", b"UPPER.JPG", b"upper.jpg"]
    os.mkdir("src")
    for i, n in enumerate(names):
        write(b"src/" + n, jpeg(picture(40, 30, i)))
    deep = b"/".join([b"d" * 60] * 5)
    write(b"src/" + deep + b"/deep.jpg", jpeg(picture(40, 30, 99)))
    p = pack("src", "-o", "out")
    assert len(p.err.splitlines()) == len([x for x in p.err.splitlines() if x.strip()])
    rows = ls("out")
    stored = {os.fsencode(f["path"]) for s in rows for f in s["fields"] if f.get("path")}
    assert stored == set(names) | {deep + b"/deep.jpg"}, stored ^ set(names)
    assert len({s["key"] for s in rows}) == len(rows)
    got = members("out")  # by Python's tarfile: every name unique
    for name in got:
        base = name.rsplit("/", 1)[-1]
        assert base.count(".") == 1 and not base.startswith((".", "__")) and " " not in name and "\n" not in name, name
    assert sorted(got.values()) == sorted(open(os.path.join(b"src", n), "rb").read() for n in stored)
    for n in (b"with blank.jpg", b"\xff\xfe latin.jpg", b"new\nline.jpg"):
        assert run("get", "out", n, code=0).stdout == open(b"src/" + n, "rb").read()


def test_files_that_share_a_key():
    for i, n in enumerate(("a.jpg", "a.png", "a.JPG", "clip.001.jpg", "clip.002.jpg", "0001.jpg", "0001.seg.png", "0001.txt",
                           "Track 2.0 (Clean).jpg", "clip.jpg", "clip.001.seg.png")):
        if n.endswith("txt"):
            write(f"src/{n}", b"text")
        else:
            save(f"src/{n}", picture(40, 30, i), format="PNG" if n.endswith("png") else "JPEG")
    pack("src", "-o", "out")
    got = {s["key"]: sorted(f["name"] for f in s["fields"]) for s in ls("out")}
    assert got["0001"] == ["jpg", "seg.png", "txt"], got
    assert got["clip_001"] == ["jpg", "seg.png"] and got["clip_002"] == ["jpg"] and got["clip"] == ["jpg"], got
    assert len(got["a"]) == 3 and len(set(got["a"])) == 3, got
    assert "Track_2_0_(Clean)" in got, got
    pack("src", "-o", "tree", "--to", "tree")
    assert files("tree").keys() == {"a.jpg", "a.png", "a.JPG", "clip.001.jpg", "clip.002.jpg", "0001.jpg", "0001.seg.png",
                                    "0001.txt", "Track 2.0 (Clean).jpg", "clip.jpg", "clip.001.seg.png", "slimset.index"}, files("tree").keys()


def test_unreadable_vanished_changed():
    photos("src", 10)
    if os.getuid() != 0:
        os.chmod("src/cat/0000.jpg", 0)
    # a file that goes and one that changes between the walk and the reading: the list is read first, the rest later
    os.mkfifo("list")
    def feed():
        with open("list", "wb") as f:
            for d, _, ns in sorted(os.walk("src")):
                for n in sorted(ns):
                    f.write(os.path.join(d, n).encode() + b"\n")
            f.flush()
    t = threading.Thread(target=feed)
    t.start()
    pack("--files-from", "list", "-o", "out", code=None)
    t.join()
    assert len(ls("out")) + len(rejects("out")) == 10


def test_no_space_stops_and_resumes():
    if os.getuid() != 0:
        print("skip test_no_space: needs root to mount a small tmpfs")
        return
    photos("src", 60, 300, 200)
    os.mkdir("small")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", "small"]).returncode != 0:
        print("skip test_no_space: mount refused here")
        return
    try:
        pack("src", "-o", "golden")
        p = pack("src", "-o", "small/out", code=1)
        assert "No space" in p.err, p.err
        assert not os.path.exists("small/out/slimset.index")
        subprocess.run(["mount", "-o", "remount,size=50m", "small"], check=True)
        pack("src", "-o", "small/out")
        assert files("small/out") == files("golden")
    finally:
        subprocess.run(["umount", "-l", "small"])


def test_boxes_are_refused_when_an_image_is_turned():
    xml = b"<annotation><object><bndbox><xmin>1</xmin><ymax>9</ymax></bndbox></object></annotation>"
    turned = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture(60, 40)).save(turned, "JPEG", exif=exif)
    for i in range(120): # more than the probe looks at: only one is turned
        write(f"src/{i:03}.jpg", turned.getvalue() if i == 77 else jpeg(picture(60, 40)))
    write("src/000.xml", xml)
    pack("src", "-o", "upright", "--codec", "png") # the boxes lie beside an image that stays as it is
    write("src/077.xml", xml)
    for more in (("--codec", "png"), ("--channels", "1"), ("--codec", "raw")):
        p = pack("src", "-o", "out" + more[1], *more, code=2)
        assert "077.xml" in p.err and "077.jpg" in p.err and "turned" in p.err and "--boxes keep" in p.err, p.err
    pack("src", "-o", "kept")
    assert not any("rotated" in f["notes"] for s in ls("kept") for f in s["fields"])
    pack("src", "-o", "marked", "--codec", "png", "--boxes", "keep")
    for i in range(3):
        write(f"coco/images/{i}.jpg", turned.getvalue())
    write("coco/instances.json", b'{"images": [], "annotations": [{"bbox": [1, 2, 3, 4]}]}')
    p = pack("coco", "-o", "coco.out", "--codec", "png", code=2)
    assert "instances.json" in p.err and "turned" in p.err, p.err
    pack("coco", "-o", "coco.out")


def test_boxes_are_refused_when_pixels_move():
    photos("src", 3, classes=("images",))
    write("src/images/0000.xml", b"<annotation><object><name>x</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax>"
                                 b"<ymax>9</ymax></bndbox></object></annotation>")
    p = pack("src", "-o", "out", "--resize", "96", code=2)
    assert "0000.xml" in p.err and "--boxes keep" in p.err, p.err
    pack("src", "-o", "out", "--resize", "96", "--boxes", "keep")
    pack("src", "-o", "plain")
    write("coco/images/1.jpg", jpeg(picture(60, 40)))
    write("coco/instances.json", b'{"images": [], "annotations": [{"bbox": [1, 2, 3, 4]}]}')
    p = pack("coco", "-o", "out2", "--resize", "30", code=2)
    assert "instances.json" in p.err and "COCO" in p.err, p.err
    write("lm/1.jpg", jpeg(picture(60, 40)))
    write("lm/1.json", b'{"shapes": [{"points": [[1, 2], [3, 4]]}]}')
    p = pack("lm", "-o", "out3", "--resize", "30", code=2)
    assert "labelme" in p.err, p.err


def test_damage_is_found():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    name = sorted(n for n in os.listdir("out") if n.endswith(".tar"))[3]
    data = bytearray(open(f"out/{name}", "rb").read())
    data[700] ^= 1
    write(f"out/{name}", data)
    p = run("verify", "out", code=4)
    assert name in p.out and "jpg" in p.out, p.out
    key = [s["key"] for s in ls("out") if s["part"] == name][0] if "part" in ls("out")[0] else None
    os.remove(f"out/{name}")
    p = run("verify", "out", code=4)
    assert name in p.out
    pack("src", "-o", "out", "--resize", "96")  # a missing shard is made again
    run("verify", "out", code=0)


def test_source_is_never_touched():
    photos("src", 10)
    before = {n: (h, os.stat(f"src/{n}").st_mtime_ns) for n, h in files("src").items()}
    pack("src", "-o", "out", "--resize", "96")
    pack("src", "-o", "tree", "--to", "tree", "--resize", "50")
    assert {n: (h, os.stat(f"src/{n}").st_mtime_ns) for n, h in files("src").items()} == before


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
