# SPDX-License-Identifier: Apache-2.0
"""The Python package: a dataset as a sequence, judged by tarfile and Pillow."""
import io
import json
import os
import pickle
import subprocess
import threading

import numpy as np
from PIL import Image

import slimset
from _frame import ls, main, members, pack, photos, picture, psnr, python, raises, save, write


def pillow(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def source(resize=("--resize", "96")):
    photos("src/train", 36, 150, 100, classes=("cat", "dog"))
    photos("src/val", 6, 100, 150, classes=("cat", "dog"), seed=900)
    for d in ("train/cat", "val/dog"):
        for n in os.listdir(f"src/{d}"):
            write(f"src/{d}/{n[:-4]}.json", json.dumps({"name": n}).encode())
    pack("src", "-o", "out", *resize)
    return slimset.open("out")


def test_a_sequence_of_samples():
    data, rows, got = source(), ls("out"), members("out")
    assert len(data) == len(rows) == 42
    for i, row in enumerate(rows):
        s = data[i]
        assert (s.key, s.split, s.class_name, s.label) == (row["key"], row["split"], row["class"], row["class_number"])
        assert list(s) == [f["name"] for f in row["fields"]] and len(s) == len(row["fields"])
        for name in s:
            assert s[name] == got[f"{s.key}.{name}"] == data.read(s.key, name)
            assert isinstance(s[name], bytes)
        assert data[s.key].number == i == data.number(s.key) and s.key in data
        assert "jpg" in s and "nope" not in s and s.get("nope") is None
    assert [s.key for s in data] == [r["key"] for r in rows] == [s.key for s in data[:]]
    assert data[-1].key == rows[-1]["key"] and [s.number for s in data[3:9:2]] == [3, 5, 7]
    for bad in (42, -43):
        with raises(IndexError, str(bad), "42"):
            data[bad]
    with raises(KeyError, "no/such"):
        data["no/such"]
    with raises(KeyError, "xyz", "jpg"):
        data[0]["xyz"]
    assert "no/such" not in data and 41 in data and 42 not in data


def test_what_there_is():
    data, rows = source(), ls("out")
    assert data.classes == ["cat", "dog"] and data.fields == [f["name"] for f in rows[0]["fields"]]
    assert {k: list(v.range) for k, v in data.splits.items()} == {
        s: [i for i, r in enumerate(rows) if r["split"] == s] for s in ("train", "val")}
    assert data.labels.dtype == np.int32 and data.labels.tolist() == [r["class_number"] for r in rows]
    assert [s.name for s in data.shards] == sorted(n for n in os.listdir("out") if n.endswith(".tar"))
    assert all(s.bytes == os.path.getsize(f"out/{s.name}") for s in data.shards)
    m = data.metadata
    assert m["key"].tolist() == [r["key"] for r in rows] and m["split"].tolist() == [r["split"] for r in rows]
    assert m["label"].tolist() == data.labels.tolist()
    assert [data.shards[i].name for i in m["shard"]] == [s.shard for s in data]
    assert m["bytes"].tolist() == [sum(f["bytes"] for f in r["fields"]) for r in rows]
    assert [(w, h) for w, h in zip(m["width"], m["height"])] == [Image.open(io.BytesIO(s["jpg"])).size for s in data]
    assert data.meta["recipe.resize"] == "long:96" and data.meta["tool"].startswith("slimset ")
    with raises(ValueError, "read-only"):
        data.labels[0] = 1


def test_pixels_are_pillows():
    data = source()
    save("more/a.png", picture(70, 50, 3))
    save("more/g.png", picture(70, 50, 4, 1))
    save("more/b.png", np.random.default_rng(1).integers(0, 65536, (40, 30)).astype(np.uint16))
    pack("more", "-o", "more.out")
    for i in range(0, 42, 5):
        want = pillow(data[i]["jpg"])
        assert np.array_equal(data.decode(i), want) and np.array_equal(data[i].decode("jpg"), want)
        assert np.array_equal(data.decode(i, layout="chw"), want.transpose(2, 0, 1))
        assert data.image_size(i) == want.shape[:2]
        top, left, h, w = 7, 11, 40, 33
        assert np.array_equal(data.decode(i, crop=(top, left, h, w)), want[top:top + h, left:left + w])
        half = data.decode(i, scale=2)
        assert half.shape == (-(-want.shape[0] // 2), -(-want.shape[1] // 2), 3)
        small = Image.open(io.BytesIO(data[i]["jpg"]))
        small.draft("RGB", (half.shape[1], half.shape[0]))
        assert small.size == half.shape[1::-1] and np.array_equal(half, np.asarray(small.convert("RGB")))
        gray = data.decode(i, channels=1)
        assert gray.shape == want.shape[:2] + (1,)
        assert np.abs(gray[..., 0].astype(int) - np.asarray(Image.open(io.BytesIO(data[i]["jpg"])).convert("L"))).max() <= 2
        assert gray.flags.writeable
    more = slimset.open("more.out")
    assert np.array_equal(more["a"].decode(), np.asarray(Image.open("more/a.png")))
    assert np.array_equal(more["g"].decode(channels=None), np.asarray(Image.open("more/g.png")))
    deep = more["b"].decode(channels=None)
    assert deep.dtype == np.uint16 and np.array_equal(deep, np.asarray(Image.open("more/b.png")).astype(np.uint16))
    with raises(slimset.InputError, "cls"):
        data[0].decode("cls")
    with raises(slimset.UsageError, "1000"):
        data.decode(0, crop=(0, 0, 1000, 5))
    with raises(ValueError, "crop"):
        data.decode(0, crop=(-1, 0, 5, 5))


def test_batches():
    data = source()
    rng = np.random.default_rng(5)
    numbers = rng.permutation(42)[:17]
    a = data.read_batch(numbers, (48, 40))
    assert a.shape == (17, 48, 40, 3) and a.dtype == np.uint8
    for i, x in zip(numbers, a):
        want = Image.open(io.BytesIO(data[int(i)]["jpg"])).convert("RGB").resize((40, 48), Image.LANCZOS)
        assert np.abs(np.asarray(want).astype(int) - x).max() <= 24 and psnr(want, x) > 40, psnr(want, x)
    for threads in (0, 2, 5):
        assert np.array_equal(data.read_batch(numbers.tolist(), (48, 40), threads=threads), a)
    out = np.zeros_like(a)
    assert data.read_batch(numbers, (48, 40), out=out) is out and np.array_equal(out, a)
    assert np.array_equal(data.read_batch(numbers, (48, 40), layout="chw"), a.transpose(0, 3, 1, 2))
    assert np.array_equal(data.read_batch([-1], (48, 40)), data.read_batch([41], (48, 40)))
    whole = [(0, 0, *data.image_size(int(i))) for i in numbers]
    assert np.array_equal(data.read_batch(numbers, (48, 40), boxes=whole), a)
    boxes = [(5, 9, 30, 20)] * 17
    b = data.read_batch(numbers, (30, 20), boxes=boxes)
    for i, x in zip(numbers, b):  # a box of the very size: its pixels, but for how chroma is enlarged
        assert psnr(pillow(data[int(i)]["jpg"])[5:35, 9:29], x) > 36
    c = data.read_batch([0], (60, 60), fit="centre")[0]
    want = pillow(data[0]["jpg"])
    h, w = want.shape[:2]
    assert psnr(want[(h - 60) // 2:(h - 60) // 2 + 60, (w - 60) // 2:(w - 60) // 2 + 60], c) > 36
    assert data.read_batch([], (8, 8)).shape == (0, 8, 8, 3)
    for bad, kind, word in (([42], IndexError, "42"), ([-43], IndexError, "43"), ([0.5], ValueError, "numbers")):
        with raises(kind, word):
            data.read_batch(bad, (8, 8))
    for arguments in (dict(out=np.zeros((1, 8, 8, 3), np.int8)), dict(out=np.zeros((1, 8, 8, 6), np.uint8)[..., ::2]),
                      dict(boxes=[(0, 0, 4)]), dict(boxes=[(-1, 0, 4, 4)])):
        with raises(ValueError):
            data.read_batch([0], (8, 8), **arguments)
    with raises(slimset.UsageError):
        data.read_batch([0], (8, 8), boxes=[(0, 0, 9999, 4)])


def test_threads_and_the_gil():
    data = source()
    want = [data.decode(i) for i in range(42)]
    wrong = []

    def work(k):
        for i in np.random.default_rng(k).permutation(42):
            if not np.array_equal(data.decode(int(i)), want[i]) or data[int(i)]["cls"] != str(data.labels[i]).encode():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_a_tree_and_no_classes():
    for i in range(5):
        save(f"src/{i}.png", picture(50, 40, i))
    pack("src", "-o", "tree", "--to", "tree")
    data = slimset.open("tree")
    for s in data:
        with open(f"src/{s.key}.png", "rb") as f:
            assert s["png"] == f.read()
        assert s.class_name is None and s.label == -1 and s.shard == ""
    assert data.classes == [] and data.labels.tolist() == [-1] * 5


OTHER = """
import json, pickle, sys
data = pickle.load(open(sys.argv[1], "rb"))
print(json.dumps([len(data), data[3].key, list(data[3]["jpg"][:20])]))
"""


def test_pickled_it_is_a_path():
    data = source()
    with open("p", "wb") as f:
        pickle.dump(data, f)
    assert os.path.getsize("p") < 1000
    os.mkdir("elsewhere")
    here = os.getcwd()
    os.chdir("elsewhere")
    assert python(OTHER, "../p") == [42, data[3].key, list(data[3]["jpg"][:20])]
    os.chdir(here)
    copy = pickle.loads(pickle.dumps(data[5:7]))
    assert [s.key for s in copy] == [data[5].key, data[6].key]


def test_fork():
    data = source()
    want = data.decode(7)
    pid = os.fork()
    if pid == 0:
        good = np.array_equal(data.decode(7), want) and data[20].key == data["" + data[20].key].key
        data.close()
        os._exit(0 if good else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert np.array_equal(data.decode(7), want)
    data.close()
    with raises(ValueError, "closed"):
        data[0]["jpg"]


def test_preload():
    data = source()
    try:
        with slimset.open("out", preload="ram") as ram, slimset.open("out", preload="ram") as again:
            for i in range(42):
                assert ram[i]["jpg"] == data[i]["jpg"] == again[i]["jpg"]
            assert np.array_equal(ram.read_batch([1, 2], (32, 32)), data.read_batch([1, 2], (32, 32)))
        assert slimset.drop_preload("out") == 0, "the last one that closes removes it"
    finally:
        slimset.drop_preload("out")
    cached = slimset.open("out", preload="page-cache")
    assert cached[0]["jpg"] == data[0]["jpg"]
    cached.prefetch([1, 2, 3])
    with raises(ValueError, "preload"):
        slimset.open("out", preload="disk")


def test_docstrings_and_types():
    for thing in (slimset.open, slimset.Dataset, slimset.Sample, slimset.drop_preload):
        assert thing.__doc__
        for name in dir(thing):
            if not name.startswith("_") and name != "number" and thing in (slimset.Dataset, slimset.Sample):
                assert getattr(thing, name).__doc__, name
    folder = os.path.dirname(slimset.__file__)
    assert os.path.exists(f"{folder}/py.typed") and os.path.exists(f"{folder}/_core.abi3.so")
    needed = subprocess.run(["objdump", "-p", f"{folder}/_core.abi3.so"], stdout=subprocess.PIPE, text=True).stdout
    libraries = {w.split()[1].split(".so")[0] for w in needed.splitlines() if "NEEDED" in w}
    assert libraries <= {"libc", "libm", "libzstd", "libjpeg", "libblosc", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}, libraries
    symbols = subprocess.run(["nm", "-D", "--defined-only", f"{folder}/_core.abi3.so"], stdout=subprocess.PIPE, text=True).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["PyInit__core"], symbols


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
