# SPDX-License-Identifier: Apache-2.0
"""--to npy: stacks of rows, judged by NumPy: what np.load maps is what the sources hold."""
import io
import os
import shutil
import signal
import subprocess
import time

import numpy as np
from PIL import Image

from _frame import IN_PROCESS, SLIMSET, files, ls, main, pack, rejects, run, write

RNG = np.random.default_rng(7)


def npy(a):
    b = io.BytesIO()
    np.save(b, a)
    return b.getvalue()


def rows(out, split):
    """All rows of a split as the files have them, mapped, and their keys and labels."""
    names = sorted((n for n in os.listdir(out) if n.startswith(split + "-0")),
                   key=lambda n: [int(x) for x in n[len(split) + 1:-4].split("-")])
    sizes = [os.path.getsize(f"{out}/{n}") for n in names]
    maps = [np.load(f"{out}/{n}", mmap_mode="r" if size > 4096 else None) for n, size in zip(names, sizes)]  # none can be empty
    for n, m in zip(names, maps):
        assert getattr(m, "offset", 4096) == 4096 and os.path.getsize(f"{out}/{n}") == 4096 + m.nbytes, n
    with open(f"{out}/{split}-keys.txt") as f:
        keys = f.read().splitlines()
    labels = np.load(f"{out}/{split}-labels.npy", mmap_mode="r")
    all_rows = [m[i, ...] for m in maps for i in range(len(m))]  # stacked anew they would lose their byte order
    assert len({(m.dtype, m.shape[1:]) for m in maps}) == 1
    assert labels.dtype == np.int64 and labels.shape == (len(all_rows),) == (len(keys),), (labels.shape, len(all_rows), len(keys))
    return all_rows, keys, labels


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def arrays(folder, n=12, dtype="<f4", shape=(3, 5, 7)):
    made = {}
    for split in ("train", "val"):
        for c in ("cat", "dog"):
            for i in range(n):
                a = (RNG.normal(size=shape) * 100).astype(dtype)
                made[f"{split}/{c}/{i:03d}"] = a
                write(f"{folder}/{split}/{c}/{i:03d}.npy", npy(a))
    return made


def test_stacks():
    """Rows, order, labels and keys; get, ls and verify; the other files of a sample."""
    made = arrays("src")
    write("src/train/cat/003.txt", b"a text")
    p = pack("src", "-o", "out", "--to", "npy")
    assert "left out" in p.out, p.out
    for split in ("train", "val"):
        data, keys, labels = rows("out", split)
        assert keys == sorted(k for k in made if k.startswith(split)), keys
        assert all(same(data[i], made[k]) for i, k in enumerate(keys))
        assert labels.tolist() == [int("dog" in k) for k in keys]
    assert [r["path"] for r in ls("out", "--left-out")] == ["train/cat/003.txt"], ls("out", "--left-out")
    got = run("get", "out", "val/dog/004", code=0).stdout
    assert got == npy(made["val/dog/004"])
    assert run("get", "out", "val/dog/004", "--as", "raw", code=0).stdout == made["val/dog/004"].tobytes()
    run("verify", "out", code=0)
    run("verify", "out", "--decode", code=0)
    again = files("out")
    assert "nothing had changed" in pack("src", "-o", "out", "--to", "npy").out and files("out") == again


def test_dtypes():
    """Every plain dtype and odd shapes; values come back bit for bit."""
    for k, (dtype, shape) in enumerate([("|b1", (4,)), ("|i1", ()), ("|u1", (2, 3)), (">f8", (3, 1)), ("<f2", (5,)), (">i2", (2, 2)),
                                        ("<i8", (1,) * 31), ("<u8", (0, 4)), ("<f4", (513, 129))]):
        made = {f"{i:02d}": RNG.integers(0, 2, size=shape).astype(dtype) if dtype == "|b1" else
                (RNG.normal(size=shape) * 50).astype(dtype) for i in range(5)}
        for key, a in made.items():
            write(f"src{k}/{key}.npy", npy(np.asarray(a)))
        pack(f"src{k}", "-o", f"out{k}", "--to", "npy")
        data, keys, labels = rows(f"out{k}", "data")
        assert all(same(data[i], np.asarray(made[key])) for i, key in enumerate(keys)), dtype
        assert labels.tolist() == [-1] * 5
        assert run("get", f"out{k}", "03", code=0).stdout == npy(np.asarray(made["03"])), dtype
        run("verify", f"out{k}", "--decode", code=0)


def test_fortran_cast():
    """Fortran order becomes C order; --cast is applied before rows are compared."""
    a = {f"{i}": np.asfortranarray(RNG.normal(size=(6, 4))) if i % 2 else RNG.normal(size=(6, 4)) for i in range(6)}
    for k, v in a.items():
        write(f"src/{k}.npy", npy(v))
    pack("src", "-o", "out", "--to", "npy", "--cast", "float32")
    data, keys, _ = rows("out", "data")
    assert all(same(data[i], np.ascontiguousarray(a[k]).astype("<f4")) for i, k in enumerate(keys))
    pack("src", "-o", "plain", "--to", "npy")
    assert run("get", "plain", "1", code=0).stdout == npy(a["1"]) and a["1"].flags.f_contiguous


def test_refused():
    """Other shapes and dtypes, several arrays, objects, structured dtypes: rejects that say why; the run goes on."""
    first = RNG.normal(size=(2, 3)).astype("<f4")
    write("src/a.npy", npy(first))
    write("src/b.npy", npy(first.T.copy()))
    write("src/c.npy", npy(first.astype("<f8")))
    write("src/d.npy", npy(np.zeros(2, dtype=[("x", "<f4"), ("y", "<i2")])))
    two = io.BytesIO()
    np.savez(two, a=first, b=first)
    one = io.BytesIO()
    np.savez(one, only=first * 2)
    write("src/e.npz", two.getvalue())
    write("src/f.npz", one.getvalue())
    write("src/g.npy", npy(first)[:-1])
    write("src/h.npy", npy(np.zeros((2, 3), "<c8")))
    p = pack("src", "-o", "out", "--to", "npy", code=3)
    said = {k: (r["class"], r["reason"]) for k, r in rejects("out").items()}
    assert sorted(said) == ["b.npy", "c.npy", "d.npy", "e.npz", "g.npy", "h.npy"], said
    assert said["b.npy"][0] == "shape" and "<f4 (3, 2)" in said["b.npy"][1] and "<f4 (2, 3)" in said["b.npy"][1], said
    assert "<f8 (2, 3)" in said["c.npy"][1] and "plain numbers" in said["d.npy"][1] and "plain numbers" in said["h.npy"][1], said
    assert said["g.npy"][0] == "truncated" and "several arrays" in said["e.npz"][1], said
    data, keys, _ = rows("out", "data")
    assert keys == ["a", "f"] and same(data[0], first) and same(data[1], first * 2)
    assert "6" in p.out
    # the first that can be read says what a row is
    write("late/a.npy", b"\x93NUMPY nothing")
    write("late/b.npy", npy(first.T.copy()))
    write("late/c.npy", npy(first))
    pack("late", "-o", "outl", "--to", "npy", code=3)
    assert rows("outl", "data")[1] == ["b"] and "<f4 (3, 2)" in rejects("outl")["c.npy"]["reason"]
    # and it is frozen
    os.remove("late/b.npy")
    write("late/d.npy", npy(first.T.copy() + 1))
    pack("late", "-o", "outl", "--to", "npy", code=3)
    assert rows("outl", "data")[1] == ["d"]
    pack("late", "-o", "outl", "--to", "npy", "--replan", code=3)
    assert rows("outl", "data")[1] == ["c"]
    for options in (["--codec", "jpeg"], ["--array-codec", "zstd"], ["--narrow"], ["--keep-order"], ["--dali-idx"]):
        assert "--to npy does not go with " + options[0] in run("pack", "src", "-o", "no", "--to", "npy", *options, code=2).err
    assert not os.path.exists("no")


def test_images():
    """Pixels, resized as Pillow does it; the rows of --codec raw in shards."""
    for c in "ab":
        for i in range(9):
            im = Image.fromarray(RNG.integers(80, 180, (40 + i, 50, 3), dtype=np.uint8))
            os.makedirs(f"img/{c}", exist_ok=True)
            im.save(f"img/{c}/{i}.png")
    pack("img", "-o", "out", "--to", "npy", "--resize", "exact:24x16")
    data, keys, labels = rows("out", "data")
    assert len(data) == 18 and data[0].shape == (16, 24, 3) and data[0].dtype == np.uint8 and labels.tolist() == [0] * 9 + [1] * 9
    for i, k in enumerate(keys):
        want = np.asarray(Image.open(f"img/{k}.png").resize((24, 16), Image.Resampling.LANCZOS)).astype(int)
        assert np.abs(data[i].astype(int) - want).max() <= 1, k  # nothing near black and white, which Pillow cuts off twice
    pack("img", "-o", "shards", "--codec", "raw", "--resize", "exact:24x16")
    for i in (0, 7, 17):
        assert run("get", "shards", keys[i], "npy", code=0).stdout == npy(data[i])
    # an image with a mask: two rows, unless one is copied
    for i in range(3):
        write(f"pair/{i}.png", open(f"img/a/{i}.png", "rb").read())
        write(f"pair/{i}.npy", npy(np.zeros(3)))
    pack("pair", "-o", "two", "--to", "npy", "--resize", "exact:8x8", code=3)
    assert all("has" in r["reason"] and "too" in r["reason"] for r in rejects("two").values() if r["kind"] == "reject")
    pack("pair", "-o", "one", "--to", "npy", "--resize", "exact:8x8", "--skip", "*.npy")
    assert [r.shape for r in rows("one", "data")[0]] == [(8, 8, 3)] * 3


def test_parts():
    """The cap: parts of at most that size, rows in order across them; shards by number; any number of workers, the same bytes."""
    made = {f"{i:03d}": RNG.integers(0, 1 << 15, (50, 1000)).astype("<i2") for i in range(31)}  # 100,000 bytes each
    for k, a in made.items():
        write(f"src/{k}.npy", npy(a))
    pack("src", "-o", "out", "--to", "npy", "--shard-size", "1M", "-j", "1")
    data, keys, _ = rows("out", "data")
    assert keys == sorted(made) and all(same(data[i], made[k]) for i, k in enumerate(keys))
    sizes = [os.path.getsize(f"out/{n}") for n in os.listdir("out") if n.startswith("data-0")]
    assert len(sizes) >= 4 and max(sizes) <= 1000000, sizes
    pack("src", "-o", "more", "--to", "npy", "--shard-size", "1M", "-j", "3")
    assert files("out") == files("more")
    run("verify", "out", code=0)
    big = RNG.normal(size=(3, 400, 400))  # more than the cap each
    for i in range(3):
        write(f"big/{i}.npy", npy(big[i]))
    pack("big", "-o", "bigout", "--to", "npy", "--shard-size", "1M", "--shards", "1")
    data, keys, _ = rows("bigout", "data")
    assert sorted(n for n in os.listdir("bigout") if n.startswith("data-0")) == ["data-00000-1.npy", "data-00000-2.npy", "data-00000.npy"]
    assert same(np.stack(data), big)
    pack("src", "-o", "by", "--to", "npy", "--shards", "5")
    assert len([n for n in os.listdir("by") if n.startswith("data-0")]) == 5 and same(np.stack(rows("by", "data")[0]), np.stack([made[k] for k in sorted(made)]))


def test_large():
    """Rows that come through a spill: the same as any other."""
    a = RNG.integers(0, 256, (2, 40 << 20), dtype=np.uint8)
    for i in range(2):
        write(f"src/{i}.npy", npy(a[i]))
    pack("src", "-o", "out", "--to", "npy")
    assert same(np.stack(rows("out", "data")[0]), a)
    run("verify", "out", code=0)


def test_updates():
    """Only what changed is written again; what is gone goes; a killed run goes on to the same bytes."""
    made = arrays("src", n=20)
    pack("src", "-o", "out", "--to", "npy", "--shards", "4")
    before = {n: os.stat(f"out/{n}").st_ino for n in os.listdir("out") if n.endswith(".npy") and "-0" in n}
    changed = (RNG.normal(size=(3, 5, 7))).astype("<f4")
    write("src/train/cat/001.npy", npy(changed))
    os.remove("src/val/dog/019.npy")
    made["train/cat/001"] = changed
    del made["val/dog/019"]
    p = pack("src", "-o", "out", "--to", "npy", "--shards", "4")
    after = {n: os.stat(f"out/{n}").st_ino for n in before}
    assert "2 written, 6 kept" in p.out, p.out
    assert [n for n in before if after[n] != before[n]] and sum(after[n] == before[n] for n in before) == 6, (before, after)
    for split in ("train", "val"):
        data, keys, _ = rows("out", split)
        assert keys == sorted(k for k in made if k.startswith(split)) and all(same(data[i], made[k]) for i, k in enumerate(keys))
    pack("src", "-o", "fresh", "--to", "npy", "--shards", "4")
    assert {n: h for n, h in files("out").items() if n != "slimset.index"} == {n: h for n, h in files("fresh").items() if n != "slimset.index"}
    if IN_PROCESS:
        print("a killed run is not tried with --in-process")
        return
    shutil.rmtree("out")
    for wait in (0.02, 0.05, 0.08):
        p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--to", "npy", "--shards", "4", "-q"], stderr=subprocess.DEVNULL)
        time.sleep(wait)
        p.send_signal(signal.SIGKILL)
        p.wait()
    pack("src", "-o", "out", "--to", "npy", "--shards", "4")
    assert files("out") == files("fresh")


def test_damage():
    """A byte of a row, of the header, of labels or keys; a cut file: found and named; --fix makes it anew."""
    arrays("src", n=8)
    pack("src", "-o", "out", "--to", "npy")
    good = files("out")
    for name, at, said in (("train-00000.npy", 4096 + 420 * 3 + 5, "train/cat/003"), ("train-00000.npy", 20, "header"),
                           ("val-00000.npy", 4095, "header"), ("val-labels.npy", 130, "val-labels.npy"),
                           ("train-keys.txt", 3, "train-keys.txt")):
        with open(f"out/{name}", "r+b") as f:
            f.seek(at)
            old = f.read(1)
            f.seek(at)
            f.write(bytes([old[0] ^ 1]))
        p = run("verify", "out", code=4)
        assert said in p.out + p.err, (name, at, p.out, p.err)
        if name == "train-keys.txt":
            pack("src", "-o", "out", "--to", "npy")
        else:
            run("verify", "out", "--fix", code=0)
        assert files("out") == good, (name, at)
        run("verify", "out", code=0)
    os.truncate("out/train-00000.npy", 5000)
    assert "truncated" in run("verify", "out", code=4).out
    p = run("get", "out", "train/dog/007", code=4)
    assert "truncated" in p.err, p.err
    run("verify", "out", "--fix", code=0)
    assert files("out") == good


main([v for n, v in list(globals().items()) if n.startswith("test_")])
