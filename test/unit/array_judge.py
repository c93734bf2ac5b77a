#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy judges npy.c and array_convert.c, through array_tool: headers of hundreds of random arrays (dtypes, shapes, orders, versions),
order of axes, narrowing and casts, and hostile headers that must be refused."""
import io
import os
import random
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np

TOOL = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ["SLIMSET_BUILD"], "array_tool")
DIR = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
failures = 0
warnings.simplefilter("ignore")


def judge(name, fn):
    global failures
    try:
        fn()
        print("ok", name, flush=True)
    except Exception as e:
        failures += 1
        print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)


def tool(files):
    """[(words of the first line, {cast: losses})] for each of the files, which are {name: bytes}."""
    for name, data in files.items():
        with open(f"{DIR}/{name}", "wb") as f:
            f.write(data)
    done = subprocess.run([TOOL, DIR, *(f"{DIR}/{n}" for n in files)], stdout=subprocess.PIPE, check=True)
    found = []
    for line in done.stdout.decode("latin-1").splitlines():
        if line.startswith("loss"):
            _, kind, *numbers = line.split()
            found[-1][1][kind] = [int(n) for n in numbers]
        else:
            found.append((line, {}))
    assert len(found) == len(files), (len(found), len(files))
    return found


def npy(array, version=None):
    b = io.BytesIO()
    np.lib.format.write_array(b, array, version=version, allow_pickle=False)
    return b.getvalue()


def load(name, kind):
    return np.load(f"{DIR}/{name}.{kind}.npy")


NUMBERS = ["|b1", "|i1", "|u1"] + [o + k for o in "<>" for k in ("i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8")]
OTHERS = ["<c8", ">c16", "|S5", "<U3", "|V7", "<M8[ns]", "<m8[D]", "<f16", [("a", "<f4"), ("b", "|u1", (2, 3))], [("x", [("y", ">i2")]), ("z", "|S3")],
          [(("a title", "name"), "<i8"), ("it's", "|b1")]]


def random_array(r, number):
    dtype = np.dtype(NUMBERS[number % len(NUMBERS)] if number % 3 else OTHERS[number // 3 % len(OTHERS)])
    shape = tuple(r.choice([0, 1, 1, 2, 3, 5, 7, 33, 40]) if r.random() < 0.95 else 100 for _ in range(r.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6])))
    while np.prod(shape, dtype=float) > 60000:
        shape = shape[:-1]
    n = int(np.prod(shape, dtype=np.int64))
    generator = np.random.default_rng(number)
    if dtype.kind == "f" and number % 2:
        a = generator.choice([0.0, -0.0, 1.5, 65519.0, 65520.0, 1e5, -1e39, 3e-8, 2e-8, 1e-46, np.nan, np.inf, 0.1], n).astype(dtype)
    elif dtype.kind in "iu" and number % 2:
        a = generator.integers(0, r.choice([2, 100, 127, 128, 255, 256]), n).astype(dtype)
    elif dtype.kind == "b":
        a = generator.integers(0, 2, n).astype(dtype)
    elif dtype.kind == "U":
        a = np.array(["aé€"] * n, dtype)
    else:
        a = np.frombuffer(generator.bytes(n * dtype.itemsize), dtype)
    a = a.reshape(shape)
    return np.asfortranarray(a) if number % 4 == 1 else a


def bits(a):
    return np.ascontiguousarray(a).tobytes()


def check_numbers(name, a, losses):
    """Narrowing keeps every bit and there is no smaller type that would; casts round as NumPy does."""
    kinds = [k for k in ("|u1", "|i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4") if np.dtype(k).itemsize < a.dtype.itemsize]
    if a.dtype.kind != "f":
        kinds = [k for k in kinds if np.dtype(k).kind != "f"]
    fits = [k for k in kinds if bits(a.astype(k).astype(a.dtype)) == bits(a)]
    narrowed = f"{DIR}/{name}.narrow.npy"
    if fits and a.size and a.dtype.kind != "b":
        got = np.load(narrowed)
        assert got.dtype == np.dtype(fits[0]), (name, a.dtype, got.dtype, fits)
        assert bits(got) == bits(a.astype(fits[0])), name
        assert bits(load(name, "wide")) == bits(a), name
    else:
        assert not os.path.exists(narrowed), (name, a.dtype)
    for kind in ("f2", "f4"):
        want, got = a.astype("<" + kind), load(name, kind)
        assert np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(want)), (name, a.dtype, kind)
        if np.dtype(kind).itemsize < 8:
            wide = a.astype(np.float64)
            lost = [int((np.isinf(want) & ~np.isinf(wide)).sum()), int(((want == 0) & (wide != 0)).sum()), 0, 0]
            assert losses[kind] == lost, (name, kind, losses[kind], lost)
    wide = a.astype(np.float64)
    scaled = np.where(np.isnan(wide), 0, np.floor((np.clip(wide, -2, 3) + 2) * 51 + 0.5)).astype(np.uint8)
    assert np.array_equal(load(name, "u1"), scaled), (name, a.dtype)
    assert losses["u1"][2:] == [int(np.isnan(wide).sum()), int(((wide < -2) | (wide > 3)).sum())], (name, losses)


def judge_random_arrays():
    r = random.Random(20)
    arrays = {f"a{i}": random_array(r, i) for i in range(600)}
    versions = {n: [(1, 0), (2, 0), (3, 0)][i % 3] for i, n in enumerate(arrays)}
    files = {}
    for n, a in arrays.items():
        try:
            files[n] = npy(a, versions[n])
        except ValueError:  # what version 1 cannot write
            files[n] = npy(a, None)
    for (name, a), (line, losses) in zip(arrays.items(), tool(files)):
        words = line.split(" ", 3)
        assert words[0] == "ok", (name, a.dtype, line)
        descr = a.dtype.str if a.dtype.names is None else repr(a.dtype.descr)
        fortran = a.flags.f_contiguous and not a.flags.c_contiguous
        assert words[3] == f"{descr} {a.shape}" and words[2] == str(int(fortran)), (name, line, descr)
        assert int(words[1]) == len(files[name]) - a.nbytes, (name, line)
        for kind in ("c", "f"):
            got = load(name, kind)
            assert got.dtype == a.dtype and got.shape == a.shape and bits(got) == bits(a), (name, kind, a.dtype, a.shape)
        if a.dtype.str in NUMBERS:
            check_numbers(name, a, losses)


def judge_own_headers():
    """Where an array keeps its order our header is byte for byte NumPy's."""
    shapes = [(), (5,), (3, 4), (10**9, 0), (1, 2, 3, 4, 5, 6)]
    files = {f"h{i}-{d.strip('|<>')}": npy(np.zeros(s, d)) for i, s in enumerate(shapes) for d in ("<f4", "|u1", ">i8")}
    tool(files)
    for name, data in files.items():
        with open(f"{DIR}/{name}.c.npy", "rb") as f:
            assert f.read() == data, name


def header(text, data=b"", major=1):
    text = text.encode("latin-1")
    size = struct.pack("<H", len(text)) if major == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([major, 0]) + size + text + data


def judge_odd_but_good():
    good = {
        "py2": header("{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 1L), }\n", bytes(8)),
        "order": header("{'shape': (3,), 'fortran_order': False, 'descr': '|u1'}\n", b"abc"),
        "noblank": header("{'descr':'<f8','fortran_order':True,'shape':(1,2)}", bytes(16)),
        "quotes": header('{"descr": "<f4", "fortran_order": False, "shape": ()}\n', bytes(4)),
        "long": header("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }" + " " * 9000 + "\n", b"a"),
        "v2": header("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n", b"a", 2),
        "nothing": header("{'descr': '|S0', 'fortran_order': True, 'shape': (2147483647, 2147483647), }\n"),
    }
    for name, (line, _) in zip(good, tool(good)):
        assert line.startswith("ok "), (name, line)


HOSTILE = {
    "object": "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
    "object in fields": "{'descr': [('a', '<f4'), ('b', [('c', 'O')])], 'fortran_order': False, 'shape': (2,), }",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 6), }",
    "overflow": "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }",
    "63 bits": "{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976, 2), }",
    "overflow with 0": "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4, 0), }",
    "huge number": "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
    "huge": "{'descr': '<f8', 'fortran_order': False, 'shape': (5000000000,), }",
    "no tuple": "{'descr': '<f8', 'fortran_order': False, 'shape': (1), }",
    "leading zero": "{'descr': '<f8', 'fortran_order': False, 'shape': (01,), }",
    "list": "{'descr': '<f8', 'fortran_order': False, 'shape': [1], }",
    "unknown type": "{'descr': '<q8', 'fortran_order': False, 'shape': (1,), }",
    "impossible size": "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }",
    "code": "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1,), }",
    "twice": "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",
    "missing": "{'descr': '<f8', 'fortran_order': False, }",
    "extra": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1, }",
    "after": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), } x",
    "order": "{'descr': '<f8', 'fortran_order': 1, 'shape': (1,), }",
    "open": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)",
    "open string": "{'descr': '<f8",
    "no dictionary": "('descr', '<f8')",
    "nul": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\0",
    "deep": "{'descr': " + "[('a', " * 40 + "'<f4'" + ")]" * 40 + ", 'fortran_order': False, 'shape': (1,), }",
    "dimensions": "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1, " * 65 + "), }",
}


def judge_hostile_headers():
    files = {f"bad{i}": header(text + "\n", bytes(8)) for i, text in enumerate(HOSTILE.values())}
    for name, (line, _) in zip(HOSTILE, tool(files)):
        want = "truncated" if name == "huge" else "array"
        assert line.startswith(f"reject {want} ") and ("byte" in line or name == "huge"), (name, line)
        assert "pickle" in line or "object" not in name, line


def judge_sizes():
    whole = npy(np.arange(100, dtype="<i4"))
    files = {"cut": whole[:-1], "head": whole[:60], "prefix": whole[:9], "longer": whole + b"x", "two": whole + whole, "none": b"NUMPY" + whole,
             "version": whole[:6] + b"\4" + whole[7:], "minor": whole[:7] + b"\1" + whole[8:], "announced": b"\x93NUMPY\2\0\xff\xff\xff\x7f" + whole}
    classes = [line.split()[1] for line, _ in tool(files)]
    assert classes == ["truncated", "truncated", "truncated", "array", "array", "array", "array", "array", "array"], classes


def judge_every_cut_and_flip():
    """No prefix of a file is taken for a file; a changed byte of the header never makes the tool fail."""
    whole = npy(np.zeros((3, 4), [("a", "<f4"), ("b", "|S3")]))
    cuts = {f"cut{i}": whole[:i] for i in range(len(whole))}
    assert all(line.startswith("reject") for line, _ in tool(cuts))
    r = random.Random(3)
    flips = {}
    for i in range(1500):
        b = bytearray(whole)
        for _ in range(r.choice([1, 1, 2])):
            b[r.randrange(len(whole) - 84)] = r.choice([r.randrange(256), *b"(),[]{}'<>|O0"])
        flips[f"flip{i}"] = bytes(b)
    for name, (line, _) in zip(flips, tool(flips)):
        if line.startswith("ok"):
            a = np.lib.format.read_array(io.BytesIO(flips[name]), allow_pickle=False)  # NumPy takes it as well
            assert line.endswith(str(a.shape)), (line, a.shape)


judge("random_arrays", judge_random_arrays)
judge("own_headers", judge_own_headers)
judge("odd_but_good", judge_odd_but_good)
judge("hostile_headers", judge_hostile_headers)
judge("sizes", judge_sizes)
judge("every_cut_and_flip", judge_every_cut_and_flip)
sys.exit(1 if failures else 0)
