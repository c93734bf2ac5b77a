# SPDX-License-Identifier: Apache-2.0
"""Groups I and N: names and trees, and what a run does to its source, its metadata and its memory."""
import hashlib
import io
import json
import os
import resource
import struct
import subprocess
import time
import unicodedata

import numpy as np
from PIL import Image

from _table import main, report, stored
from _make import after_soi, chunk, encoded, exif, gradient, jpeg, png, seen, segment, with_exif
from _frame import SLIMSET, files, ls, members, pack, rejects, run, write

TINY = jpeg(np.zeros((8, 8, 3), np.uint8))


def check(name, good, detail=""):
    report(name, None if good else detail or "not so")


def paths(out):
    return {f["path"] for s in ls(out) for f in s["fields"] if f["path"]}


def names():
    for n in ("a.b.c.jpg", "a.d.jpg"):
        write(f"dots/{n}", TINY)
    pack("dots", "-o", "o1", code=0)
    keys = [s["key"] for s in ls("o1")]
    check("I01a keys have no dot and stay apart", len(set(keys)) == 2 and not any("." in k.rsplit("/", 1)[-1] for k in keys), keys)
    for n, data in (("a.png", png(gradient(8, 8))), ("a.jpg", TINY), ("a.JPG", jpeg(gradient(9, 9)))):
        write(f"twice/{n}", data)
    pack("twice", "-o", "o2", code=None)
    found = paths("o2") | set(rejects("o2"))
    stored_names = members("o2")  # fails where a name is there twice
    check("I01b one stem, three files: nothing is overwritten", found == {"a.png", "a.jpg", "a.JPG"} and len(stored_names) == len(paths("o2")),
          (found, sorted(stored_names)))
    for d in ("d1", "d2"):
        write(f"folders/{d}/a.jpg", TINY)
    pack("folders", "-o", "o3", "--classes", "none", code=0)
    check("I01c the same name in two folders", len({s["key"] for s in ls("o3")}) == 2)
    odd = ("with space.jpg", "new\nline.jpg", "tab\there.jpg", "quote'\".jpg", "-dash.jpg", "comma,semi;.jpg", "aux.jpg", "dir v1.2/0001.jpg")
    for n in odd:
        write(f"odd/{n}", TINY)
    write("odd/bad\nline.jpg", b"")
    p = pack("odd", "-o", "o4", "--classes", "none", code=3)
    check("I01d odd names come back byte for byte", paths("o4") == set(odd), paths("o4") ^ set(odd))
    lines = [x for x in p.err.splitlines() if x.startswith("reject:")]
    check("I01d no line of the log is split", len(lines) == 1 and lines[0].endswith("zero bytes"), lines)
    junk = (".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX/._a.jpg", "._a.jpg", ".ipynb_checkpoints/a-checkpoint.jpg")
    for n in (*junk, "a.jpg"):
        write(f"junk/{n}", TINY)
    pack("junk", "-o", "o5", code=0)
    check("I01e junk is no sample", paths("o5") == {"a.jpg"}, paths("o5"))
    listed = {r["path"] for r in ls("o5", "--left-out")}
    check("I01e junk is counted and named", {"Thumbs.db", "desktop.ini"} <= {os.path.basename(x) for x in listed}, listed)
    long = ("x" * 250 + ".jpg", "d" * 90 + "/" + "e" * 120 + ".jpg", "f/" * 40 + "g" * 200 + ".jpg")
    for n in long:
        write(f"long/{n}", TINY)
    pack("long", "-o", "o6", "--classes", "none", code=0)
    check("I01f long names are kept in the index", paths("o6") == set(long))
    check("I01f and fit into plain tar headers", all(len(n.encode()) <= 255 for n in members("o6")))
    nfc, nfd = unicodedata.normalize("NFC", "caf\u00e9.jpg"), unicodedata.normalize("NFD", "caf\u00e9.jpg")
    write(f"uni/{nfc}", TINY)
    write(f"uni/{nfd}", jpeg(gradient(9, 8)))
    p = pack("uni", "-o", "o7", code=0)
    check("I02 two forms of one letter stay two files", paths("o7") == {nfc, nfd}, paths("o7"))
    check("I02 and are warned of", "differ only in case or in the Unicode form" in p.err, p.err)
    forms = [c for r in ((0xc0, 0x250), (0x386, 0x3cf), (0x400, 0x500), (0x1e00, 0x1f00), (0x304c, 0x30ff), (0xac00, 0xd7a4)) for c in range(*r)
             if unicodedata.normalize("NFC", chr(c)) == chr(c) != unicodedata.normalize("NFD", chr(c))]
    forms = [c for c in forms if c < 0xac00 or c % 97 == 0]
    for c in forms:
        for form in ("NFC", "NFD"):
            write(f"forms/{c:05x}{unicodedata.normalize(form, chr(c))}.jpg", TINY)
    p = pack("forms", "-o", "o10", "--classes", "none", code=0)
    check(f"I02 {len(forms)} letters are seen in both forms", f"(and {len(forms) - 1} more like them)" in p.err, p.err[-600:])
    one = "".join(map(chr, forms[:60]))
    write(f"near/{one}.jpg", TINY)
    write(f"near/{unicodedata.normalize('NFD', one)[:-1]}.jpg", TINY)
    p = pack("near", "-o", "o9", code=0)
    check("I02 a missing accent is another name", "differ only" not in p.err, p.err)
    os.makedirs("raw", exist_ok=True)
    with open(b"raw/caf\xe9.jpg", "wb") as f:
        f.write(TINY)
    pack("raw", "-o", "o8", code=0)
    back = run("ls", "o8", "--json", code=0).stdout
    check("I03 bytes that are no UTF-8", b"caf" in back and len(ls("o8")) == 1, back[:300])
    got = run("get", "o8", ls("o8")[0]["key"], code=0).stdout
    check("I03 and the file behind them", got == TINY)


def trees():
    write("elsewhere/b.jpg", TINY)
    write("t/real/a.jpg", TINY)
    os.symlink("../elsewhere", "t/outside")
    for name, target in (("loop", "."), ("up", "real/.."), ("dirlink", "real"), ("dangling.jpg", "nowhere.jpg"), ("link.jpg", "real/a.jpg")):
        os.symlink(target, f"t/{name}")
    os.link("t/real/a.jpg", "t/hard.jpg")
    os.mkfifo("t/fifo.jpg")
    os.makedirs("t/dir.jpg")
    p = pack("t", "-o", "o1", "--classes", "none", code=None)
    check("I04 links, loops, a FIFO: the walk ends", p.returncode in (0, 3), p.err[-300:])
    check("I04 a hard link is a file, a FIFO is not", {"real/a.jpg", "hard.jpg", "link.jpg"} <= paths("o1") and "fifo.jpg" not in paths("o1"), paths("o1"))
    check("I04 the link that leads nowhere is told", "dangling.jpg" in rejects("o1"), rejects("o1"))
    pack("t", "-o", "o2", "--no-follow", "--classes", "none", code=None)
    check("I04 a link out of the tree is followed, once", "outside/b.jpg" in paths("o1"), paths("o1"))
    check("I04 --no-follow", paths("o2") == {"real/a.jpg", "hard.jpg"}, paths("o2"))
    write("case/a.jpg", TINY)
    write("case/A.jpg", jpeg(gradient(9, 8)))
    p = pack("case", "-o", "o3", code=0)
    check("I05 is warned of", "case/A.jpg and case/a.jpg differ only in case" in p.err and "more like" not in p.err, p.err)
    check("I05 names that differ in case are two samples", len({s["key"] for s in ls("o3")}) == 2)
    order = [f"{i:03d}.jpg" for i in range(60)]
    for folder, some in (("p", order), ("q", order[::-1])):
        for n in some:
            write(f"{folder}/{n}", jpeg(gradient(12 + int(n[:3]) % 5, 9, int(n[:3]))))
    pack("p", "-o", "op", "-j", "1", code=0)
    pack("q", "-o", "oq", "-j", "3", code=0, env={"LC_ALL": "C"})
    check("I06 order of the folder, workers and locale change no byte", files("op") == files("oq"))
    write("self/a.jpg", TINY)
    first = pack("self", "-o", "self/out", code=None)
    second = pack("self", "-o", "self/out", code=None)
    check("I07 output inside the source is refused or left out", first.returncode == 2 or (second.returncode == 0 and paths("self/out") == {"a.jpg"}),
          (first.err[-200:], second.err[-200:]))
    write("gone/a.jpg", TINY)
    write("gone/b.jpg", TINY)
    with open("list", "w") as f:
        f.write("gone/a.jpg\ngone/c.jpg\ngone/b.jpg\n")
    p = pack("--files-from", "list", "-o", "o8", code=2)
    check("I08 a file of the list that is not there is named", "gone/c.jpg" in p.err, p.err[-300:])
    for i in range(300):  # no worker is as fast as this: what was seen by the walk is gone or cut when its turn comes
        write(f"moving/{i:03d}.jpg", jpeg(gradient(200, 150, i % 7)))
    p = subprocess.Popen([SLIMSET, "pack", "moving", "-o", "om", "--resize", "32", "--classes", "none", "-j", "1", "--window", "4", "--no-detect"],
                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    while p.poll() is None and not os.path.isdir("om/.slimset/stage"):
        time.sleep(0.001)
    for i in range(0, 300, 2):
        os.unlink(f"moving/{i:03d}.jpg")
    err = p.communicate()[1].decode()
    lost = rejects("om") if p.returncode in (0, 3) else {}
    check("I08 what vanishes during the run is a reject, the run goes on",
          p.returncode in (0, 3) and len(lost) + len(paths("om")) == 300 and {r["class"] for r in lost.values()} <= {"vanished", "changed"},
          (p.returncode, err[-300:]))
    print(f"   {len(lost)} of 150 files were gone in time")


GPS = b"II*\0\x08\0\0\0\1\0\x25\x88\4\0\1\0\0\0\x1a\0\0\0\0\0\0\0" + struct.pack("<HHHI4s", 1, 1, 2, 2, b"N\0\0\0") + b"GPSMARK\0"


def metadata():
    a = gradient(40, 30)
    mark = b"GPSMARK"
    comment = segment(0xFE, mark)
    icc = segment(0xE2, b"ICC_PROFILE\0\1\1" + mark * 40)
    jpg = after_soi(jpeg(a), segment(0xE1, b"Exif\0\0" + GPS), segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + mark), icc, segment(0xED, mark), comment)
    text = b"".join(chunk(t, b"k\0" + mark) for t in ("tEXt",)) + chunk("iTXt", b"k\0\0\0\0\0" + mark) + chunk("eXIf", GPS) + chunk("prVt", mark)
    webp = encoded(a, "WEBP", lossless=True, exif=b"Exif\0\0" + GPS, xmp=mark, icc_profile=mark * 30)
    tif = encoded(a, "TIFF", tiffinfo={270: mark.decode()})
    for n, data in (("a.jpg", jpg), ("b.png", png(a, before=text)), ("c.webp", webp), ("d.tif", tif)):
        assert mark in data, n
        write(f"m/{n}", data)
    for codec in ("jpeg", "png", "webp", "raw"):
        pack("m", "-o", codec, "--codec", codec, "--image", "*", "--classes", "none", code=0)
        for p, (data, _) in stored(codec).items():
            check(f"N01 nothing private of {p} is left in {codec}", mark not in data and b"Exif" not in data, data[:200])
    pack("m", "-o", "kept", "--codec", "jpeg", "--keep-metadata", "--image", "*", "--classes", "none", code=0)
    check("N01 --keep-metadata keeps it where nothing is encoded again", mark in stored("kept")["a.jpg"][0])
    pack("m", "-o", "bytes", "--classes", "none", code=0)
    check("N01 a pack that keeps bytes keeps all of them", all(d == open(f"m/{p}", "rb").read() for p, (d, _) in stored("bytes").items()))


def runs():
    for i in range(40):
        write(f"s/{'cat' if i % 2 else 'Dog'}/{i:02d}.jpg", jpeg(gradient(30 + i, 20, i)))
    state = lambda: {p: (os.stat(p).st_mtime_ns, os.stat(p).st_mode, hashlib.sha256(open(p, "rb").read()).hexdigest())
                     for d, _, names_ in os.walk("s") for p in (os.path.join(d, n) for n in names_)}
    before = state()
    subprocess.run(["chmod", "-R", "a-w", "s"], check=True)
    frozen = {p: (m, h) for p, (m, _, h) in state().items()}
    pack("s", "-o", "o", "--resize", "16", code=0)
    check("N04 the source is as it was", {p: (m, h) for p, (m, _, h) in state().items()} == frozen)
    subprocess.run(["chmod", "-R", "u+w", "s"], check=True)
    del before
    classes = {s["class"]: s["class_number"] for s in ls("o")}
    check("N06 classes are folders in the order of their bytes", classes == {"Dog": 0, "cat": 1}, classes)
    labels = {s["class"]: members("o")[s["key"] + ".cls"] for s in ls("o")[:8]}
    check("N06 and stand beside the image", labels == {"Dog": b"0", "cat": b"1"} or set(labels) < {"Dog", "cat"}, labels)


def memory():
    """N07: memory does not grow with the number of files."""
    a = [encoded(gradient(64, 48, i), "TIFF") for i in range(4)]
    peak = {}
    for n in (40, 1200):
        for i in range(n):
            write(f"n{n}/{i:05d}.tif", a[i % 4])
        pid = os.fork()
        if pid == 0:  # a child of its own, so that its children are all there is to measure
            code = subprocess.run([SLIMSET, "pack", f"n{n}", "-o", f"o{n}", "--codec", "jpeg", "--image", "*", "-j", "1", "-q"]).returncode
            with open(f"peak{n}", "w") as f:
                f.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
            os._exit(code)
        check(f"N07 {n} files through libvips", os.waitpid(pid, 0)[1] == 0)
        peak[n] = int(open(f"peak{n}").read())
    print(f"   largest process: {peak} KiB")
    check("N07 thirty times the files need no more memory", peak[1200] < peak[40] + 20000, peak)


if __name__ == "__main__":
    main(names, trees, metadata, runs, memory)
