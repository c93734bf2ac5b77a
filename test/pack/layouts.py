# SPDX-License-Identifier: Apache-2.0
# time-limit: 400 s
"""Splits, classes, shards and trees, read back by stock readers: webdataset from PyPI, ImageFolder's rule, tarfile.
Runs with SLIMSET_IN_PROCESS as well."""
import glob
import io
import os
import re
import subprocess
import sys

import numpy as np
from PIL import Image

from _frame import files, jpeg, ls, main, members, pack, photos, picture, rejects, run, save, write


def image_folder(root):
    """torchvision's ImageFolder: sorted class folders, sorted files inside, by lower-case extension."""
    exts = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
    classes = sorted(e.name for e in os.scandir(root) if e.is_dir() and not e.name.startswith("."))
    samples = []
    for i, c in enumerate(classes):
        for d, _, names in sorted(os.walk(os.path.join(root, c), followlinks=True)):
            samples += [(os.path.join(d, n), i) for n in sorted(names) if n.lower().endswith(exts)]
    return classes, samples


def test_splits_and_classes():
    photos("src/train", 40, classes=("dog", "cat", "Zebra"))
    photos("src/val", 12, classes=("dog", "cat", "Zebra"), seed=500)
    pack("src", "-o", "out", "--resize", "64")
    names = sorted(n for n in os.listdir("out") if n.endswith(".tar"))
    assert all(re.fullmatch(r"(train|val)-\d{5}\.tar", n) for n in names), names
    assert sum(n.startswith("train") for n in names) == 32 and sum(n.startswith("val") for n in names) == 12
    rows = ls("out")
    assert [s["key"] for s in rows if s["split"] == "val"] == sorted(s["key"] for s in rows if s["split"] == "val")
    train = [s["key"] for s in rows if s["split"] == "train"]
    assert train != sorted(train)
    order = {"Zebra": 0, "cat": 1, "dog": 2}  # byte order
    for s in rows:
        assert s["class_number"] == order[s["class"]] and s["key"].startswith(f"{s['split']}/{s['class']}/")
        cls = [f for f in s["fields"] if f["name"] == "cls"]
        assert len(cls) == 1
    got = members("out")
    assert all(int(got[s["key"] + ".cls"]) == s["class_number"] for s in rows)


def test_class_numbers_are_frozen():
    photos("src", 40, classes=("cat", "dog"))
    pack("src", "-o", "out", "--resize", "64")
    photos("src", 6, classes=("ape",), seed=900)
    p = pack("src", "-o", "out", "--resize", "64")
    assert '"ape" gets number 2' in p.err, p.err
    assert {s["class"]: s["class_number"] for s in ls("out")} == {"cat": 0, "dog": 1, "ape": 2}
    for n in glob.glob("src/cat/*"):
        write(n, b"broken")
    pack("src", "-o", "out", "--resize", "64", code=3)
    assert {s["class"]: s["class_number"] for s in ls("out")} == {"dog": 1, "ape": 2}


def test_numeric_class_folders():
    photos("src", 36, classes=("1", "2", "10"))
    p = pack("src", "-o", "a", "--resize", "64")
    assert "byte order" in p.err
    assert {s["class"]: s["class_number"] for s in ls("a")} == {"1": 0, "10": 1, "2": 2}
    pack("src", "-o", "b", "--resize", "64", "--class-order", "numeric")
    assert {s["class"]: s["class_number"] for s in ls("b")} == {"1": 0, "2": 1, "10": 2}
    pack("src", "-o", "c", "--resize", "64", "--classes", "none")
    assert not any(n.endswith(".cls") for n in members("c"))


def test_images_folders_are_no_classes():
    photos("src", 8, classes=("images", "masks"))
    pack("src", "-o", "out")
    assert not any(n.endswith(".cls") for n in members("out"))
    photos("faces", 20, classes=("with_mask", "without_mask"))
    pack("faces", "-o", "out2", "--resize", "64")  # photographs, whatever the folder is called
    assert all(f["role"] in ("image", "label") for s in ls("out2") for f in s["fields"])


def test_shard_size_is_a_hard_cap():
    rng = np.random.default_rng(1)
    for i in range(60):
        write(f"src/{i:03d}.jpg", jpeg(rng.integers(0, 256, (300, 300, 3)).astype(np.uint8), quality=95))
    write("src/000.bin", bytes(3_000_000))  # one sample larger than the cap
    p = pack("src", "-o", "out", "--shard-size", "1M", "--shards", "4")
    sizes = {n: os.path.getsize(f"out/{n}") for n in os.listdir("out") if n.endswith(".tar")}
    big = [n for n, s in sizes.items() if s > 1_000_000]
    assert len(big) == 1, sizes
    assert any(re.fullmatch(r"data-0000\d-\d+\.tar", n) for n in sizes), sizes
    assert len(ls("out")) == 60
    run("verify", "out", code=0)


def test_tree_mirrors_the_source():
    photos("src/train", 9, classes=("cat", "dog"))
    for i in range(6):
        save(f"src/train/cat/p{i}.png", picture(150, 100, 100 + i))
    write("src/train/labels.csv", b"id,label\n1,cat\n")
    write("src/readme.txt", b"hello\n")
    pack("src", "-o", "tree", "--to", "tree", "--resize", "64")
    got, want = files("tree"), files("src")
    assert {re.sub(r"\.\w+$", "", n) for n in got} - {"slimset"} == {re.sub(r"\.\w+$", "", n) for n in want}
    assert "train/cat/p0.jpg" in got and got["train/labels.csv"] == want["train/labels.csv"]
    a, b = image_folder("src/train"), image_folder("tree/train")
    assert a[0] == b[0] and [(os.path.splitext(p)[0].split("/", 1)[1], c) for p, c in a[1]] == \
        [(os.path.splitext(p)[0].split("/", 1)[1], c) for p, c in b[1]]
    for p, _ in b[1]:
        im = Image.open(p)
        im.load()
        assert max(im.size) == 64
    run("verify", "tree", "--decode", code=0)
    pack("src", "-o", "tree2", "--to", "tree", "--resize", "64", "-j", "3")
    assert files("tree2") == got
    os.remove("src/train/cat/p0.png")
    pack("src", "-o", "tree", "--to", "tree", "--resize", "64")
    del got["train/cat/p0.jpg"], got["slimset.index"]
    assert {k: v for k, v in files("tree").items() if k != "slimset.index"} == got


def test_left_out_files_are_listed():
    photos("src", 8)
    write("src/notes.csv", b"a,b\n")
    write("src/train.zip", b"PK\x03\x04not really")
    pack("src", "-o", "out")
    got = {r["path"] for r in ls("out", "--left-out")}
    assert {"notes.csv", "train.zip"} <= got, got


def test_get_by_key_and_path():
    photos("src", 8)
    write("src/cat/0000.txt", b"caption")
    pack("src", "-o", "out", "--resize", "64")
    got = members("out")
    assert run("get", "out", "cat/0000", code=0).stdout == got["cat/0000.jpg"]
    assert run("get", "out", "cat/0000", "txt", code=0).stdout == b"caption"
    assert run("get", "out", "cat/0002.jpg", code=0).stdout == got["cat/0002.jpg"]
    p = run("get", "out", "cat/9999", code=1)
    assert "cat/9999" in p.err


WDS = """
import glob, io, json, sys, warnings
warnings.filterwarnings("ignore")
import webdataset as wds
urls = sorted(glob.glob(sys.argv[1] + "/*.tar"))
n = {}
for s in wds.WebDataset(urls, shardshuffle=False).decode("pilrgb"):
    n[s["__key__"]] = (s["jpg"].size, s["cls"])
shuffled = sorted(s["__key__"] for s in wds.WebDataset(urls, shardshuffle=100, seed=3).shuffle(50))
print(json.dumps([n, shuffled]))
"""


def test_webdataset_reads_it():
    if subprocess.run([sys.executable, "-c", "import webdataset"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skip test_webdataset_reads_it: the webdataset package is not installed (./dev test installs it)")
        return
    import json
    photos("src", 50, 200, 100)
    pack("src", "-o", "out", "--resize", "80")
    p = subprocess.run([sys.executable, "-c", WDS, "out"], stdout=subprocess.PIPE, check=True)
    found, shuffled = json.loads(p.stdout)
    rows = ls("out")
    assert found == {s["key"]: [[80, 40], s["class_number"]] for s in rows}
    assert shuffled == sorted(s["key"] for s in rows)


def test_replan_says_what_changes():
    rng = np.random.default_rng(3)
    for i in range(6):  # drawings: few values, large areas
        save(f"src/{i}.png", np.kron(rng.integers(0, 3, (5, 6, 3)), np.ones((16, 16, 1))).astype(np.uint8) * 90)
    pack("src", "-o", "out", "--resize", "48")
    for i in range(6):
        save(f"src/{i}.png", picture(96, 80, i))
    p = pack("src", "-o", "out", "--resize", "48")
    assert {f["name"] for s in ls("out") for f in s["fields"]} == {"png"}, "decisions are frozen"
    p = pack("src", "-o", "out", "--resize", "48", "--replan")
    assert "--replan: .png was image, png; it is now image, jpeg" in p.err, p.err
    assert {f["name"] for s in ls("out") for f in s["fields"]} == {"jpg"}


def test_bmp_to_everything_in_one_field_set():
    """A sample keeps the same fields whatever the formats of its files: loaders need that."""
    for i in range(20):
        save(f"src/{i:02d}.png", picture(90, 60, i))
        write(f"src/{i:02d}.json", b'{"n": %d}' % i)
    pack("src", "-o", "out", "--resize", "45")
    assert {tuple(sorted(f["name"] for f in s["fields"])) for s in ls("out")} == {("jpg", "json")}


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
