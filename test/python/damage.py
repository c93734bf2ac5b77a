# SPDX-License-Identifier: Apache-2.0
"""Bad datasets in Python: each is an exception that names file, shard and sample, never other bytes than were packed; and a
dataset that is packed again while it is open."""
import os
import pickle
import shutil
import signal
import subprocess
import tarfile
import time

import numpy as np

import slimset
from _frame import SLIMSET, main, members, pack, photos, raises, write


def source(n=40):
    photos("src", n, 150, 100)
    pack("src", "-o", "out", "--resize", "96")
    return slimset.open("out")


def index(change):
    with open("out/slimset.index", "rb") as f:
        data = bytearray(f.read())
    write("out/slimset.index", bytes(change(data) or data))



def shard_of(key):
    return next(n for n in sorted(os.listdir("out")) if n.endswith(".tar") and
                f"{key}.jpg" in tarfile.open(f"out/{n}").getnames())


def test_no_dataset():
    with raises(slimset.NotFoundError, "nowhere"):
        slimset.open("nowhere")
    os.mkdir("empty")
    with raises(slimset.NotFoundError, "empty"):
        slimset.open("empty")
    write("file", b"x")
    with raises(slimset.NotFoundError, "file", "folder"):
        slimset.open("file")


def test_another_version():
    source()
    import xxhash  # what the format names; here from PyPI, since another program must judge

    def later(d):
        d[8:12] = (9).to_bytes(4, "little")
        d[120:128] = xxhash.xxh3_64_intdigest(bytes(d[:120])).to_bytes(8, "little")
    index(later)
    with raises(slimset.ChangedError, "version 9", "slimset.index"):
        slimset.open("out")


def test_truncated_index():
    source()
    with open("out/slimset.index", "rb") as f:
        whole = f.read()
    for n in [0, 1, 100, 127, 128, 1000, len(whole) // 2, len(whole) - 1]:
        write("out/slimset.index", whole[:n])
        with raises(slimset.DamagedError, "slimset.index"):
            slimset.open("out")
    write("out/slimset.index", whole)
    assert len(slimset.open("out")) == 40


def test_a_byte_of_the_index_flipped():
    source()
    want = members("out")
    with open("out/slimset.index", "rb") as f:
        whole = f.read()
    rng = np.random.default_rng(3)
    caught = 0
    for at in rng.integers(0, len(whole), 120).tolist():
        data = bytearray(whole)
        data[at] ^= 1 << rng.integers(8)
        write("out/slimset.index", bytes(data))
        try:
            got = {f"{s.key}.{f}": s[f] for s in slimset.open("out") for f in s}
            assert got == want, at
        except slimset.Error as error:
            assert isinstance(error, (slimset.DamagedError, slimset.ChangedError)) and "slimset.index" in str(error), (at, error)
            caught += 1
    assert caught >= 100, caught


def test_a_byte_of_a_shard_flipped():
    data = source()
    want = members("out")
    for i in (0, 17, 39):
        key = data[i].key
        name = shard_of(key)
        with tarfile.open(f"out/{name}") as t:
            m = t.getmember(key + ".jpg")
        with open(f"out/{name}", "r+b") as f:
            f.seek(m.offset_data + m.size // 2)
            byte = f.read(1)[0]
            f.seek(-1, 1)
            f.write(bytes([byte ^ 16]))
        fresh = slimset.open("out")
        for reading in (lambda: fresh[i]["jpg"], lambda: fresh.decode(i), lambda: fresh.read_batch([i], (32, 32)),
                        lambda: data.decode(key)):
            with raises(slimset.DamagedError, name, key, "jpg"):
                reading()
        assert fresh[i]["cls"] == want[key + ".cls"]
        unchecked = slimset.open("out", verify=False)
        assert unchecked[i]["jpg"] != want[key + ".jpg"] and len(unchecked[i]["jpg"]) == len(want[key + ".jpg"])
        with raises(slimset.DamagedError, ".tar", "jpg"):
            slimset.open("out", preload="ram")


def test_a_batch_names_what_failed():
    data = source()
    key = data[5].key
    name = shard_of(key)
    with open(f"out/{name}", "r+b") as f:
        f.seek(tarfile.open(f"out/{name}").getmember(key + ".jpg").offset_data)
        f.write(b"\0\0\0")
    out = np.full((8, 16, 16, 3), 7, np.uint8)
    with raises(slimset.DamagedError, name, key):
        data.read_batch(range(8), (16, 16), out=out, threads=2)
    good = data.read_batch([0, 1, 2, 3, 4, 6, 7], (16, 16))
    assert np.array_equal(out[[0, 1, 2, 3, 4, 6, 7]], good), "all others are done"


def test_a_shard_is_gone_or_shorter():
    data = source()
    key = data[12].key
    name = shard_of(key)
    size = os.path.getsize(f"out/{name}")
    shutil.copy(f"out/{name}", "kept")
    for n in (0, 512, size // 2, size - 1024 - 1):
        os.truncate(f"out/{name}", n)
        fresh = slimset.open("out")
        failed = 0
        for field in fresh[12]:
            try:
                assert fresh[12][field] == members_of("kept")[f"{key}.{field}"]
            except slimset.DamagedError as error:
                assert name in str(error) and key in str(error), error
                failed += 1
        assert failed >= 1 or n > size - 1100, n  # the last cut takes nothing but the end of the tar
        shutil.copy("kept", f"out/{name}")
    opened = slimset.open("out")
    assert opened[12]["jpg"] == members_of("kept")[key + ".jpg"]
    os.truncate(f"out/{name}", 600)  # below an open reader: no signal
    with raises(slimset.DamagedError, name, key):
        opened[12]["jpg"]
    os.remove(f"out/{name}")
    with raises(slimset.Error, name):
        slimset.open("out")[12]["jpg"]


def members_of(path):
    with tarfile.open(path) as t:
        return {m.name: t.extractfile(m).read() for m in t}


def test_an_unfinished_pack():
    photos("src", 400, 900, 700)
    p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "400", "-j", "1", "-q"])
    for _ in range(2000):
        if os.path.exists("out/.slimset/plan"):
            break
        time.sleep(0.005)
    p.send_signal(signal.SIGKILL)
    p.wait()
    assert not os.path.exists("out/slimset.index")
    with raises(slimset.NotFoundError, "out", "not finished", "again"):
        slimset.open("out")


def test_unpacked_tars():
    source()
    for name in [n for n in os.listdir("out") if n.endswith(".tar")]:
        os.mkdir(f"out/{name[:-4]}")
        subprocess.run(["tar", "-xf", f"out/{name}", "-C", f"out/{name[:-4]}"], check=True)
        os.remove(f"out/{name}")
    with raises(slimset.Error, "unpacked"):
        slimset.open("out")


def test_packed_again_while_open():
    """What was read before and what is read afterwards belongs to one dataset, or is refused."""
    data = source(60)
    old = members("out")
    keys = [s.key for s in data]
    first = data[0]["jpg"]  # opens one shard
    text = pickle.dumps(data)
    for n in os.listdir("src/cat"):
        os.remove(f"src/cat/{n}")
    photos("src", 60, 130, 140, seed=5000)
    pack("src", "-o", "out", "--resize", "96")
    assert [s.key for s in data] == keys and data[0]["jpg"] == first
    seen = refused = 0
    for s in data:
        for name in ("jpg", "cls"):
            try:
                assert s[name] == old[f"{s.key}.{name}"]
                seen += 1
            except slimset.ChangedError as error:
                assert "again" in str(error), error
                refused += 1
    assert seen >= 2 and refused > 0
    with raises(slimset.ChangedError, "again"):
        pickle.loads(text)
    new = members("out")
    assert {f"{s.key}.{f}": s[f] for s in slimset.open("out") for f in s} == new


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
