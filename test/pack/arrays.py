# SPDX-License-Identifier: Apache-2.0
"""Arrays through whole runs: .npy, .npz and raw files, judged by NumPy, the zstd program and numcodecs."""
import io
import json
import os
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np

from _frame import IN_PROCESS, files, ls, main, members, pack, rejects, run, write

PYTHON = os.environ.get("SLIMSET_PYTHON", sys.executable)


def npy(a):
    b = io.BytesIO()
    np.save(b, a)
    return b.getvalue()


def unzstd(data):
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


def unblosc(buffers):
    """The .npy files in c-blosc buffers, as numcodecs (from PyPI) decodes them."""
    if not buffers:
        return []
    code = ("import sys, struct\nfrom numcodecs import blosc\nd = sys.stdin.buffer.read()\nat = 0\nwhile at < len(d):\n"
            "    n, = struct.unpack_from('<Q', d, at)\n    b = bytes(blosc.decompress(d[at + 8:at + 8 + n]))\n"
            "    sys.stdout.buffer.write(struct.pack('<Q', len(b)) + b)\n    at += 8 + n\n")
    data = b"".join(struct.pack("<Q", len(b)) + b for b in buffers)
    done = subprocess.run([PYTHON, "-c", code], input=data, stdout=subprocess.PIPE, check=True).stdout
    found, at = [], 0
    while at < len(done):
        n, = struct.unpack_from("<Q", done, at)
        found.append(done[at + 8:at + 8 + n])
        at += 8 + n
    return found


def contents(out):
    """{member: bytes of the .npy in it} of all shards; other members as they are."""
    found = members(out)
    blosc = [n for n in found if n.endswith(".npy.blosc")]
    found.update(zip(blosc, unblosc([found[n] for n in blosc])))
    return {n: unzstd(d) if n.endswith(".zst") else d for n, d in found.items()}


def pick(found, key):
    """The only member of a key."""
    data, = [d for n, d in found.items() if n.startswith(key + ".")]
    return data


def load(data):
    return np.load(io.BytesIO(data), allow_pickle=False)


def same(got, want, what=""):
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape, want.dtype, want.shape)
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes(), what


def notes(out):
    return {f["path"]: f["notes"] for s in ls(out) for f in s["fields"]}


def varied():
    r = np.random.default_rng(1)
    odd = np.array([0, 0x7ff0000000000001, 0xfff8000000000123, 1 << 63, 0x7ff8000000000000], "<u8").view("<f8")
    return {
        "f4": r.normal(size=(3, 17, 19)).astype("<f4"), "be": r.integers(0, 9000, (5, 6)).astype(">i4"), "bool": r.random((4, 9)) < 0.5,
        "complex": (r.random(7) + 1j).astype("<c8"), "scalar": np.float64(2.5).reshape(()), "empty": np.zeros((0, 3, 8), "<f2"),
        "text": np.array(["aé", "b"], "<U4"), "date": np.array(["2020-01-01"], "<M8[D]"), "nan": odd,
        "fields": np.array([(1, 2.5), (3, -0.0)], [("a", "<i2"), ("b", "<f4")]), "u1": r.integers(0, 256, (32, 32, 3)).astype("u1"),
        "fortran": np.asfortranarray(r.integers(0, 50, (31, 7, 5))), "one": np.arange(5, dtype="<i8"),
    }


def test_exact():
    arrays = varied()
    for n, a in arrays.items():
        write(f"src/{n}.npy", npy(a))
    write("src/v3.npy", npy(arrays["f4"])[:6] + b"\3\0" + struct.pack("<I", len(npy(arrays["f4"])) - arrays["f4"].nbytes - 10) + npy(arrays["f4"])[10:])
    for codec, ending in (("zstd", "npy.zst"), ("auto", None), ("blosc:bitshuffle:max", "npy.blosc"), ("npy", "npy"), ("npz", "npz")):
        pack("src", "-o", codec, "--array-codec", codec)
        found = contents(codec)
        for n, a in arrays.items():
            name = [k for k in found if k.startswith(n + ".")]
            assert len(name) == 1 and (ending is None or name[0] == f"{n}.{ending}"), (codec, name)
            got = load(found[name[0]])
            same(got["arr_0"] if ending == "npz" else got, a, (codec, n))
            if ending != "npz" and n != "fortran":
                assert found[name[0]] == npy(a), (codec, n)
        for s in ls(codec):
            a = arrays.get(s["key"])
            if a is not None and a.dtype.names is None:
                assert s["fields"][0]["array"] == f"{a.dtype.str} {a.shape}", s["fields"]
        assert notes(codec)["fortran.npy"] == ["c-order"]
        run("verify", codec, "--decode", code=0)
    for n, a in arrays.items():
        assert run("get", "auto", n, code=0).stdout == npy(a), n
        raw = np.frombuffer(run("get", "auto", n, "--as", "raw", code=0).stdout, a.dtype)
        assert raw.tobytes() == a.tobytes(order="F" if n == "fortran" else "C"), n
    assert unzstd(run("get", "zstd", "f4", "--as", "stored", code=0).stdout) == npy(arrays["f4"])


def test_frames():
    """One frame, with its size and a checksum."""
    write("src/a.npy", npy(np.zeros((300, 1000), "<f4")))
    pack("src", "-o", "out", "--array-codec", "zstd")
    write("a.zst", members("out")["a.npy.zst"])
    said = subprocess.run(["zstd", "-lv", "a.zst"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "# Zstandard Frames: 1" in said and "(1200128 B)" in said and "Check: XXH64" in said, said


def test_npz():
    r = np.random.default_rng(2)
    image, label = r.integers(0, 4000, (40, 50)).cumsum(0).astype("<u2"), np.int64(3)
    for i in range(6):
        np.savez_compressed(f"c{i}.npz", image=image + i, label=label + i)
        write(f"src/c{i}.npz", open(f"c{i}.npz", "rb").read())
    np.savez("s.npz", **{"image": image, "group/name x": image[:1], "A": label, "a": label, "b.c": label, "l" * 60: label})
    write("src/stored/s.npz", open("s.npz", "rb").read())
    pack("src", "-o", "out")
    found = contents("out")
    for i in range(6):
        name = [n for n in found if n.startswith(f"c{i}.image.npy.")]
        same(load(found[name[0]]), image + i)
        same(load(found[f"c{i}.label.npy.zst"]), np.asarray(label + i))
    fields = {f["name"]: f for s in ls("out") if s["key"] == "stored/s" for f in s["fields"]}
    assert len(fields) == 6 and sorted(fields)[0].startswith("a.npy.zst"), fields.keys()
    assert "npz.a.npy.zst" in fields and any(n.startswith("group_name_x.npy.") for n in fields) and "b_c.npy.zst" in fields, fields.keys()
    assert all(f["path"] == "stored/s.npz" and f["source_bytes"] == os.path.getsize("s.npz") for f in fields.values())
    assert max(map(len, fields)) <= 60, fields.keys()
    report = json.loads(pack("src", "-o", "out", "--json").out.splitlines()[-1])
    assert report["in_bytes"] == sum(os.path.getsize(os.path.join(d, f)) for d, _, n in os.walk("src") for f in n), report
    assert report["unchanged"], report


def test_choice():
    """A filter where it is 5 % smaller, the same for the whole field, written down and used again."""
    r = np.random.default_rng(3)
    for i in range(20):
        write(f"src/scan/{i}.npy", npy((r.normal(0, 20, (64, 64)).cumsum(0) + 2000).astype("<u2")))
        write(f"src/flat/{i}.x.npy", npy(r.integers(0, 256, (64, 64)).astype("<f4") / 255))
        write(f"src/flat/{i}.jpg", b"")
    p = pack("src", "-o", "one", "--no-detect", "-j", "1", code=None)
    assert "blosc" in p.err and "lossless" in p.err, p.err
    formats = {f["format"] for s in ls("one") for f in s["fields"] if f["path"].startswith("scan")}
    assert formats == {"npy-blosc"}, formats
    pack("src", "-o", "two", "--no-detect", "-j", "4", "--window", "3", code=None)
    assert files("one") == files("two")
    rule = {r["field"]: r for r in map(json.loads, run("ls", "one", "--fields", "--json", code=0).out.splitlines())}
    assert rule["npy"]["codec"] == "npy-blosc" and rule["npy"]["params"].startswith("blosc:"), rule
    write("src/scan/new.npy", npy(r.random((10, 10))))  # decided already
    pack("src", "-o", "one", "--no-detect", code=None)
    assert {f["format"] for s in ls("one") for f in s["fields"] if f["path"] == "scan/new.npy"} == {"npy-blosc"}


def test_narrow():
    r = np.random.default_rng(4)
    arrays = {"label": r.integers(0, 30, (40, 40)), "whole": r.integers(-300, 300, (40, 40)).astype("<f8"), "half": r.integers(0, 99, 50) / 4,
              "minus": np.array([0.0, -0.0]), "wide": np.array([2**40, 1]), "real": r.random(9), "be": np.array([7, 8], ">i8"),
              "turned": np.asfortranarray(r.integers(0, 5, (6, 7)))}
    want = {"label": "|u1", "whole": "<i2", "half": "<f2", "minus": "<f2", "wide": "<i8", "real": "<f8", "be": "|u1", "turned": "|u1"}
    for n, a in arrays.items():
        write(f"src/{n}.npy", npy(a))
    pack("src", "-o", "out", "--narrow")
    found = contents("out")
    for n, a in arrays.items():
        got = load(pick(found, n))
        assert got.dtype == np.dtype(want[n]) and np.array_equal(got, a), (n, got.dtype)
        assert run("get", "out", n, code=0).stdout == npy(a), n
        assert ("narrowed" in notes("out")[f"{n}.npy"]) == (a.dtype.str != want[n])
    run("verify", "out", "--decode", code=0)


def test_cast():
    a = np.array([1, 1e5, 1e-9, np.nan, np.inf, 0.25], "<f4")
    write("src/fine.npy", npy(np.linspace(-1, 1, 1000)))
    write("src/loss.npy", npy(a))
    write("src/label.npy", npy(np.arange(300)))
    p = pack("src", "-o", "out", "--cast", "float16", code=3)
    assert "cast-loss" in rejects("out")["loss.npy"]["class"] and "2 of 6" in rejects("out")["loss.npy"]["reason"], rejects("out")
    found = contents("out")
    same(load(pick(found, "fine")), np.linspace(-1, 1, 1000).astype("<f2"))
    same(load(pick(found, "label")), np.arange(300))
    assert "lossy" in p.err, p.err
    p = pack("src", "-o", "out", "--cast", "float16", "--max-cast-loss", "0.4", "--force")
    same(load(pick(contents("out"), "loss")), a.astype("<f2"))
    assert "1 became infinite, 1 zero" in p.err, p.err
    assert {f["path"]: f["classes_lost"] for s in ls("out") for f in s["fields"]}["loss.npy"] == 2
    write("ct/a.npy", npy(np.arange(-1000, 1000, dtype="<i2")))
    pack("ct", "-o", "ctout", "--cast", "uint8:-1000,1000", "--max-cast-loss", "0")
    same(load(pick(contents("ctout"), "a")), np.floor((np.arange(-1000, 1000) + 1000) * (255 / 2000) + 0.5).astype("u1"))
    pack("ct", "-o", "ctout", "--cast", "uint8:0,500", "--force", code=3)
    assert "1499 lie outside" in rejects("ctout")["a.npy"]["reason"], rejects("ctout")


def test_keep_order():
    a = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    write("src/a.npy", npy(a))
    pack("src", "-o", "out", "--keep-order")
    assert contents("out")["a.npy.zst"] == npy(a) and notes("out")["a.npy"] == []


def test_resize():
    """float32 as Pillow's mode F, bit for bit; 8 and 16 bits within one step of Pillow's; labels by nearest; axes that nobody named stay."""
    from PIL import Image
    r = np.random.default_rng(7)
    smooth = np.asarray(Image.fromarray(r.normal(size=(9, 11)).astype("f4")).resize((201, 97), Image.BICUBIC)) * 3
    rgb = np.stack([smooth, smooth[::-1], -smooth], -1)
    size = (100, 48)

    def pillow(a):
        return np.asarray(Image.fromarray(a).resize(size, Image.LANCZOS))

    arrays = {"HW": smooth, "HWC": rgb, "CHW": rgb.transpose(2, 0, 1).copy(), "NHWC": np.stack([rgb, rgb * 2]),
              "NCHW": np.stack([rgb, rgb * 2]).transpose(0, 3, 1, 2).copy()}
    for axes, a in arrays.items():
        write(f"{axes}/a.npy", npy(a))
        write(f"{axes}/other.npy", npy(np.arange(7)))
        pack(axes, "-o", f"{axes}.out", "--layout", axes, "--resize", "exact:100x48")
        got = pick(contents(f"{axes}.out"), "a")
        planes = {"HW": lambda x: x[None], "HWC": lambda x: x.transpose(2, 0, 1), "CHW": lambda x: x,
                  "NHWC": lambda x: x.transpose(0, 3, 1, 2).reshape(6, *x.shape[1:3]), "NCHW": lambda x: x.reshape(6, *x.shape[2:])}[axes]
        for p, q in zip(planes(load(got)), planes(a)):
            assert p.dtype == np.float32 and np.array_equal(p, pillow(np.ascontiguousarray(q))), axes
        same(load(pick(contents(f"{axes}.out"), "other")), np.arange(7))
        run("verify", f"{axes}.out", "--decode", code=0)
    field = [f for s in ls("HWC.out") for f in s["fields"] if f["path"] == "a.npy"][0]
    assert (field["width"], field["height"], field["source_width"], field["source_height"]) == (100, 48, 201, 97) and field["notes"] == ["resized"]
    u1 = np.clip((smooth + 6) * 20, 0, 255).astype("u1")
    label = (smooth > 0).astype("<i8") * 7
    for n, a in {"u1": u1, "u2": (u1.astype("<u2") << 4), "label": label, "mask": u1, "f8": smooth.astype("<f8"), "f": np.asfortranarray(smooth)}.items():
        write(f"src/{n}.npy", npy(a))
    pack("src", "-o", "out", "--layout", "HW", "--resize", "exact:100x48", "--mask", "mask.npy")
    found = {n: load(pick(contents("out"), n)) for n in ("u1", "u2", "label", "mask", "f8", "f")}
    assert np.abs(found["u1"].astype(int) - pillow(u1)).max() <= 1
    assert found["u2"].dtype == np.uint16 and np.abs(found["u2"] - np.clip(pillow(u1.astype("f4") * 16), 0, 65535)).max() <= 0.51
    y, x = (np.arange(48) * 2 + 1) * 97 // 96, (np.arange(100) * 2 + 1) * 201 // 200
    same(found["label"], label[np.ix_(y, x)])
    same(found["mask"], u1[np.ix_(y, x)])
    assert np.abs(found["f8"] - pillow(smooth)).max() < 1e-5 and np.array_equal(found["f"], pillow(smooth))
    pack("src", "-o", "none", "--resize", "50")
    same(load(pick(contents("none"), "u1")), u1)


def test_raw():
    a = np.random.default_rng(5).integers(0, 9999, (7, 20, 30)).astype("<u2")
    write("src/a.bin", b"head" + a.tobytes())
    write("src/short.bin", b"head" + a.tobytes()[:-1])
    pack("src", "-o", "out", "--array", "*.bin", "--raw", "u2:-1,20,30", "--raw-offset", "4", code=3)
    name, = [n for n in contents("out")]
    assert name.startswith("a.npy."), name
    same(load(contents("out")[name]), a)
    assert rejects("out")["short.bin"]["class"] == "array", rejects("out")
    pack("src", "-o", "none", "--array", "*.bin", code=3)
    assert "--raw" in rejects("none")["a.bin"]["reason"], rejects("none")


def test_bad_input():
    good = npy(np.arange(1000.0))
    write("src/good.npy", good)
    bad = {"pickle": np.array([{}], dtype=object)}
    b = io.BytesIO()
    np.save(b, bad["pickle"], allow_pickle=True)
    write("src/pickle.npy", b.getvalue())
    write("src/cut.npy", good[:-8])
    write("src/tail.npy", good + b"xyz")
    write("src/html.npy", b"<!DOCTYPE html><html><body>404</body></html>")
    write("src/empty.npy", b"")
    write("src/lfs.npz", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n")
    np.savez("o.npz", a=np.arange(3), bad=np.array([{}], dtype=object))
    write("src/object.npz", open("o.npz", "rb").read())
    np.savez_compressed("d.npz", a=np.arange(3), flipped=np.arange(9000.0))
    d = bytearray(open("d.npz", "rb").read())
    d[d.index(b"flipped.npy") + 600] ^= 255
    write("src/flipped.npz", bytes(d))
    write("src/directory.npz", open("d.npz", "rb").read()[:-30])
    with zipfile.ZipFile("t.npz", "w") as z:
        z.writestr("a.npy", npy(np.arange(3)))
        z.writestr("readme.txt", "no array")
    write("src/other.npz", open("t.npz", "rb").read())
    with zipfile.ZipFile("n.npz", "w"):
        pass
    write("src/nothing.npz", open("n.npz", "rb").read())
    pack("src", "-o", "out", code=3)
    found = rejects("out")
    want = {"pickle.npy": ("array", "pickle"), "cut.npy": ("truncated", "8000"), "tail.npy": ("array", "3 bytes behind"), "html.npy": ("html", ""),
            "empty.npy": ("empty", ""), "lfs.npz": ("lfs-pointer", ""), "object.npz": ("array", "member bad.npy: npy header, byte"),
            "flipped.npz": (None, "member flipped.npy"), "directory.npz": ("truncated", "end record"), "other.npz": ("array", "readme.txt"),
            "nothing.npz": (None, "")}
    assert set(found) == set(want), (set(found) ^ set(want))
    for path, (reject, text) in want.items():
        assert (reject is None or found[path]["class"] == reject) and text in found[path]["reason"], found[path]
    assert list(contents("out").values()) == [good]


def test_archives():
    """From a zip (stored, deflated) and a tar what the folder gives."""
    r = np.random.default_rng(6)
    for i in range(5):
        write(f"src/{i}.npy", npy(r.integers(0, 99, (30, 30))))
        np.savez_compressed("x.npz", a=r.random((9, 9)), b=np.arange(i))
        write(f"src/{i}n.npz", open("x.npz", "rb").read())
    pack("src", "-o", "folder")
    for name, method in (("stored.zip", zipfile.ZIP_STORED), ("deflated.zip", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(name, "w", method) as z:
            for n in sorted(os.listdir("src")):
                z.write(f"src/{n}", n)
        pack(name, "-o", name + ".out")
        assert members(name + ".out") == members("folder"), name
    subprocess.run(["tar", "-C", "src", "-cf", "a.tar", "."], check=True)
    pack("a.tar", "--no-webdataset", "-o", "tar.out")
    assert members("tar.out") == members("folder")
    os.makedirs("wds")
    for i in range(5):
        write(f"wds/{i}.npy", npy(np.arange(1000)))
        write(f"wds/{i}.cls", b"1")
    subprocess.run(["tar", "-C", "wds", "-cf", "w.tar", *sorted(os.listdir("wds"))], check=True)
    pack("w.tar", "-o", "wds.out")  # is WebDataset: fields stay as they are
    assert members("wds.out")["3.npy"] == npy(np.arange(1000))
    pack("w.tar", "-o", "wds2.out", "--array-codec", "zstd")
    assert unzstd(members("wds2.out")["3.npy.zst"]) == npy(np.arange(1000))
    pack("src", "-o", "tree", "--to", "tree")
    assert open("tree/3.npy", "rb").read() == open("src/3.npy", "rb").read()
    pack("src", "-o", "tree2", "--to", "tree", "--array-codec", "zstd")
    assert unzstd(open("tree2/3.npy.zst", "rb").read()) == open("src/3.npy", "rb").read()


def test_large():
    """An array of 1.2 GB in pieces: the same bytes as zstd makes it back to, little memory, its own part."""
    os.makedirs("src")
    a = np.lib.format.open_memmap("src/x.npy", mode="w+", dtype="<f4", shape=(300, 1000, 1000))
    a[150, 5] = np.arange(1000)
    a.flush()
    del a
    write("src/small.npy", npy(np.arange(10)))
    write("src/copied.bin", b"")
    os.truncate("src/copied.bin", 70 << 20)
    pack("src", "-o", "out", "--copy", "*.bin", "--array", "*.npy", "--array-codec", "zstd")
    if not IN_PROCESS:
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert peak < 150 << 10, f"{peak} KiB"
    run("verify", "out", "--decode", code=0)
    run("get", "out", "x", "-o", "x.npy", code=0)
    assert subprocess.run(["cmp", "x.npy", "src/x.npy"]).returncode == 0
    os.remove("x.npy")
    pack("src", "-o", "narrow", "--copy", "*", "--array", "x.npy", "--narrow")
    run("get", "narrow", "x", "-o", "x.npy", code=0)
    assert notes("narrow")["x.npy"] == ["narrowed"] and subprocess.run(["cmp", "x.npy", "src/x.npy"]).returncode == 0


main([v for n, v in list(globals().items()) if n.startswith("test_")])
