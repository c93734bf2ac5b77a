# SPDX-License-Identifier: Apache-2.0
# time-limit: 600 s
"""slimset.torch and slimset.wds under PyTorch's own DataLoader and stock webdataset: workers, fork and spawn, samplers."""
import io
import itertools
import json
import os
import subprocess

import numpy as np
import torch
from PIL import Image

import slimset
import slimset.torch
import slimset.wds
from _frame import ls, main, members, pack, photos, python, raises, write

LOADER = """
import hashlib, json, sys
import torch, slimset.torch
if __name__ == "__main__":
    workers, method, decode = int(sys.argv[2]), sys.argv[3] or None, sys.argv[4]
    data = slimset.torch.Dataset(sys.argv[1], split="train", decode=decode)
    loader = torch.utils.data.DataLoader(data, batch_size=7, num_workers=workers, multiprocessing_context=method,
                                         collate_fn=list if decode == "bytes" else None)
    out = []
    for epoch in range(2):
        for batch in loader:
            if decode == "bytes":
                out += [[hashlib.sha256(x).hexdigest(), y] for x, y in batch]
            else:
                assert batch[0].dtype == torch.uint8 and batch[1].dtype == torch.int64
                out += [[hashlib.sha256(x.numpy().tobytes()).hexdigest(), int(y)] for x, y in zip(*batch)]
    print(json.dumps(out))
"""


def source():
    photos("src/train", 44, 150, 100, classes=("ape", "bear", "cat"))
    photos("src/val", 6, 150, 100, classes=("ape", "bear", "cat"), seed=300)
    pack("src", "-o", "out", "--resize", "96")


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_loader_in_every_way():
    import hashlib
    source()
    got, rows = members("out"), [r for r in ls("out") if r["split"] == "train"]
    sha = lambda b: hashlib.sha256(b).hexdigest()
    want = {"bytes": [[sha(got[r["key"] + ".jpg"]), r["class_number"]] for r in rows],
            "rgb8": [[sha(pixels(got[r["key"] + ".jpg"]).tobytes()), r["class_number"]] for r in rows],
            "torchrgb8": [[sha(pixels(got[r["key"] + ".jpg"]).transpose(2, 0, 1).tobytes()), r["class_number"]] for r in rows]}
    for workers, method, decode in ((0, "", "bytes"), (0, "", "rgb8"), (1, "fork", "rgb8"), (2, "fork", "torchrgb8"),
                                    (1, "spawn", "rgb8"), (2, "spawn", "bytes"), (2, "forkserver", "torchrgb8")):
        assert python(LOADER, "out", workers, method, decode) == want[decode] * 2, (workers, method, decode)


def test_what_a_sample_is():
    source()
    got = members("out")
    train, val = (slimset.torch.Dataset("out", split=s) for s in ("train", "val"))
    both = slimset.torch.Dataset("out")
    assert (len(train), len(val), len(both)) == (44, 6, 50) and train.classes == ["ape", "bear", "cat"]
    assert both.labels.tolist() == train.labels.tolist() + val.labels.tolist()
    x, y = val[2]
    key = val.data[val.first + 2].key
    assert np.array_equal(x, pixels(got[key + ".jpg"])) and y == int(got[key + ".cls"]) and type(y) is int
    assert np.array_equal(val[-4][0], x)
    with raises(IndexError):
        val[6]
    with raises(ValueError, "test", "train"):
        slimset.torch.Dataset("out", split="test")
    with raises(ValueError, "decode"):
        slimset.torch.Dataset("out", decode="pil")
    t = slimset.torch.Dataset("out", split="val", decode="torchrgb8", transform=lambda x: x.float() / 255,
                              target_transform=lambda y: y + 10)
    assert torch.equal(t[2][0], torch.from_numpy(x).permute(2, 0, 1).float() / 255) and t[2][1] == y + 10
    everything = slimset.torch.Dataset("out", split="val", decode="numpy")[2]
    assert everything["__key__"] == key and everything["cls"] == y and np.array_equal(everything["jpg"], x)


def test_crops_are_cut_out_of_the_whole():
    source()
    data = slimset.torch.Dataset("out", crop=(40, 56))
    whole = slimset.torch.Dataset("out")
    torch.manual_seed(3)
    seen = set()
    for i in range(50):
        h, w = whole[i][0].shape[:2]
        state = torch.get_rng_state()
        top, left, ch, cw = slimset.torch.RandomCrop((40, 56))(h, w)
        seen.add((top, left))
        torch.set_rng_state(state)
        assert np.array_equal(data[i][0], whole[i][0][top:top + ch, left:left + cw])
    assert len(seen) > 30
    with raises(slimset.UsageError, "200"):
        slimset.torch.Dataset("out", crop=200)[0]
    centre = slimset.torch.Dataset("out", crop=slimset.torch.CenterCrop(32))
    h, w = whole[0][0].shape[:2]
    assert np.array_equal(centre[0][0], whole[0][0][(h - 32) // 2:(h - 32) // 2 + 32, (w - 32) // 2:(w - 32) // 2 + 32])
    resized = slimset.torch.Dataset("out", decode="torchrgb8", crop=slimset.torch.RandomResizedCrop(), size=24)
    state = torch.get_rng_state()
    x = resized[4][0]
    torch.set_rng_state(state)
    top, left, ch, cw = resized.crop(h, w)
    want = Image.fromarray(whole[4][0]).resize((24, 24), Image.LANCZOS, box=(left, top, left + cw, top + ch))
    assert x.shape == (3, 24, 24) and np.abs(np.asarray(want).transpose(2, 0, 1).astype(int) - x.numpy()).max() <= 10
    for h, w in ((100, 100), (30, 400), (5, 5)):
        for _ in range(200):
            top, left, ch, cw = slimset.torch.RandomResizedCrop()(h, w)
            assert 0 <= top and top + ch <= h and 0 <= left and left + cw <= w and ch > 0 and cw > 0


def test_workers_draw_different_crops():
    source()
    data = slimset.torch.Dataset("out", split="train", crop=20)
    def epoch(seed):
        torch.manual_seed(seed)
        return torch.cat([x for x, _ in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)])
    a, b, c = epoch(1), epoch(1), epoch(2)
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_sampler_order():
    photos("src/train", 300, 24, 24, classes=("a", "b"))
    photos("src/val", 40, 24, 24, classes=("a", "b"), seed=700)
    pack("src", "-o", "out", "--shards", "12")
    data = slimset.torch.Dataset("out", split="train")
    shards = {i: k for k, s in enumerate(s for s in data.data.shards if s.split == "train")
              for i in range(s.first - data.first, s.first - data.first + s.samples)}
    make = lambda **k: slimset.torch.ShardSampler(data, **{"seed": 5, "window": 30, **k})
    order = list(make())
    assert sorted(order) == list(range(300)) and list(make()) == order and len(make()) == 300
    assert list(make(seed=6)) != order
    assert list(make(shuffle=False)) == list(range(300))
    # without windows shards come whole; with them a sample comes at most a window earlier or later
    plain = list(make(window=0))
    assert [k for k, _ in itertools.groupby(plain, shards.get)] == list(dict.fromkeys(map(shards.get, plain)))
    assert max(abs(order.index(v) - i) for i, v in enumerate(list(make(window=0)))) < 300
    s = make()
    s.set_epoch(1)
    second = list(s)
    assert sorted(second) == list(range(300)) and second != order
    near = [len({shards[i] for i in order[at:at + 30]}) for at in range(0, 270, 30)]
    assert max(near) <= 6, near
    for replicas in (1, 3, 7, 8):
        ranks = [list(make(rank=r, num_replicas=replicas)) for r in range(replicas)]
        assert {len(r) for r in ranks} == {-(-300 // replicas)}, "equal counts"
        flat = [i for r in ranks for i in r]
        assert set(flat) == set(range(300)) and flat[:300] == order
        short = [list(make(rank=r, num_replicas=replicas, drop_last=True)) for r in range(replicas)]
        assert {len(r) for r in short} == {300 // replicas} and len({i for r in short for i in r}) == 300 // replicas * replicas
    with raises(ValueError, "rank"):
        make(rank=3, num_replicas=3)


def test_sampler_goes_on_in_the_middle():
    photos("src", 90, 24, 24)
    pack("src", "-o", "out")
    data = slimset.torch.Dataset("out")
    a = slimset.torch.ShardSampler(data, seed=1, window=16, rank=1, num_replicas=2)
    a.set_epoch(4)
    whole = list(a)
    begun = list(itertools.islice(a, 17))
    state = json.loads(json.dumps(a.state_dict()))
    b = slimset.torch.ShardSampler(data, seed=1, window=16, rank=1, num_replicas=2)
    b.load_state_dict(state)
    b.set_epoch(4)
    assert begun + list(b) == whole and list(b) == whole
    # a DataLoader asks ahead: what was trained on counts
    loader = torch.utils.data.DataLoader(data, batch_size=5, sampler=a, num_workers=2, collate_fn=list)
    a.set_epoch(5)
    it = iter(loader)
    used = sum((next(it) for _ in range(3)), [])
    state = a.state_dict(consumed=15)
    b.load_state_dict(state)
    a.set_epoch(6)
    a.set_epoch(5)
    assert list(b) == list(a)[15:]
    with raises(ValueError, "seed"):
        slimset.torch.ShardSampler(data, seed=2, window=16, rank=1, num_replicas=2).load_state_dict(state)


def test_sampler_begins_anew():
    """What an abandoned iterator has handed out is not missing from the next epoch."""
    photos("src", 60, 24, 24)
    pack("src", "-o", "out")
    data = slimset.torch.Dataset("out", decode="bytes")
    make = lambda: slimset.torch.ShardSampler(data, seed=1, window=16)
    orders = []
    for epoch in range(3):
        s = make()
        s.set_epoch(epoch)
        orders.append(list(s))
    assert orders[0] != orders[1] != orders[2]
    for workers in (0, 2):
        s = make()
        loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=s, num_workers=workers, collate_fn=list)
        want = [data[i] for i in orders[0]]
        next(iter(loader))
        s.set_epoch(0)
        assert sum(loader, []) == want, "a peek"
        for _ in zip(loader, range(3)):
            pass
        assert sum(loader, []) == want, "an early break"
        one, two = iter(loader), iter(loader)
        assert [x for pair in zip(one, two) for x in pair[0]] == want, "two at once"
    s = make()
    assert list(zip(s, s)) == list(zip(orders[0], orders[0]))
    # the newest iterator is the one that is told of
    old = iter(s)
    new = iter(s)
    [next(old) for _ in range(9)]
    [next(new) for _ in range(3)]
    next(old)
    assert s.state_dict()["position"] == 3
    list(old)
    assert s.state_dict()["position"] == 3 and s.state_dict()["epoch"] == 0
    s.set_epoch(1)
    next(new)
    assert s.state_dict()["position"] == 0 and list(s) == orders[1]


def test_sampler_state():
    photos("src", 60, 24, 24)
    pack("src", "-o", "out")
    data = slimset.torch.Dataset("out", decode="bytes")
    make = lambda: slimset.torch.ShardSampler(data, seed=1, window=16)
    orders = []
    for epoch in range(3):
        s = make()
        s.set_epoch(np.int64(epoch))
        orders.append(list(s))
        state = json.loads(json.dumps(s.state_dict()))
        assert (state["epoch"], state["position"]) == (epoch + 1, 0), "a complete epoch: the next one is to come"
    for used, epoch, position in ((0, 0, 0), (1, 0, 1), (59, 0, 59), (60, 1, 0), (64, 1, 0)):
        state = make().state_dict(np.int32(used))
        assert (state["epoch"], state["position"]) == (epoch, position)
        s = make()
        s.load_state_dict(json.loads(json.dumps(state)))
        assert s.state_dict() == state
        loader = torch.utils.data.DataLoader(data, batch_size=7, sampler=s, collate_fn=list)
        batches = -(-(60 - position) // 7)
        assert len(s) == 60 - position and len(loader) == batches
        s.set_epoch(epoch)
        rest = list(loader)
        assert len(rest) == batches and sum(rest, []) == [data[i] for i in orders[epoch][position:]]
        assert len(s) == 60 and list(s) == orders[epoch]
        s.set_epoch(epoch + 1)
        assert epoch > 0 or list(s) == orders[1]
    # a load is for one pass only, and counts from the beginning of the epoch
    s = make()
    s.load_state_dict(make().state_dict(20))
    assert list(itertools.islice(s, 5)) == orders[0][20:25] and s.state_dict()["position"] == 25
    assert list(s) == orders[0]
    good = make().state_dict()
    for name, bad in (("position", -5), ("position", 60), ("position", 2 ** 70), ("epoch", -1), ("position", 1.5), ("epoch", None)):
        with raises((ValueError, TypeError), name, str(bad)):
            make().load_state_dict({**good, name: bad})
    for call in (lambda: make().state_dict(-1), lambda: make().set_epoch(-1)):
        with raises(ValueError, "-1"):
            call()
    for name, bad in (("seed", -1), ("window", -5), ("num_replicas", 0), ("rank", 1), ("rank", -1)):
        with raises(ValueError, name, str(bad)):
            slimset.torch.ShardSampler(data, **{name: bad})
    with raises(TypeError, "window"):
        slimset.torch.ShardSampler(data, window=2.5)


def test_errors_cross_processes():
    source()
    data = slimset.torch.Dataset("out", split="train")
    shard = data.data[3].shard
    with open(f"out/{shard}", "r+b") as f:
        f.seek(600)
        f.write(b"\0" * 40)
    with raises(slimset.DamagedError, shard, data.data[3].key):
        list(torch.utils.data.DataLoader(data, batch_size=4, num_workers=1))


def test_everything_of_a_sample():
    """decode="numpy" leaves what is neither JPEG, PNG nor an array as bytes; the words of a recipe may have odd line ends."""
    os.makedirs("src")
    rng = np.random.default_rng(9)
    picture = Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8))
    for name in ("a.jpg", "b.png", "c.bmp", "d.webp"):
        picture.save(f"src/{name}")
        write(f"src/{name[0]}.json.zst", zstd(b"{}"))
        np.save(f"src/{name[0]}.x.npy", np.arange(6))
    pack("src", "-o", "out", "--mask", "*a\u2028=b\x0b*")
    data = slimset.torch.Dataset("out", decode="numpy")
    assert len(data) == 4
    for i, s in enumerate(data.data):
        got = data[i]
        for name, value in s.items():
            if name in ("jpg", "png"):
                assert np.array_equal(got[name], np.asarray(Image.open(io.BytesIO(value)))), name
            elif "npy" in name:
                assert np.array_equal(got[name], np.arange(6)), name
            else:
                assert got[name] == value and name in ("bmp", "webp", "json.zst"), name
        assert len(got) == len(s) + 1
    assert "\u2028" in "".join(data.data.meta.values()), data.data.meta


STRUCTURED = """
import glob, json, sys
import numpy as np
import slimset.wds, webdataset as wds
n = 0
for s in wds.WebDataset(sorted(glob.glob(sys.argv[1] + "/*.tar")), shardshuffle=False).decode(slimset.wds):
    a, want = s[next(k for k in s if k.startswith("npy"))], np.load(f"src/{s['__key__']}.npy")
    assert a.dtype == want.dtype and a.shape == want.shape and a.tobytes() == want.tobytes()
    n += 1
print(json.dumps(n))
"""


def test_structured_arrays():
    kinds = [[("x", "<f4"), ("n", ">i2")], [("p", [("a", "u1"), ("b", "<f8", (2, 3))]), ("name", "<U5"), ("t", "<M8[s]")],
             np.dtype([("x", "u1"), ("y", "<f4")], align=True), [(f"column_{k:03}", "<f4") for k in range(200)], "<U0", "V7"]
    rng = np.random.default_rng(4)
    os.makedirs("src", exist_ok=True)
    for i, kind in enumerate(kinds):
        kind = np.dtype(kind)
        a = np.frombuffer(rng.bytes(6 * kind.itemsize), kind).reshape(2, 3) if i != 1 and kind.itemsize else np.zeros((2, 3), kind)
        if i == 1:
            a["p"]["b"], a["name"], a["t"] = 2.5, "caf\u00e9", np.datetime64("2020-02-02T03:04:05")
        np.save(f"src/{i}.npy", np.asfortranarray(a) if i == 0 else a)
    for codec in ("zstd", "npy"):
        pack("src", "-o", codec, "--array-codec", codec)
        data = slimset.torch.Dataset(codec, decode="numpy")
        assert len(data) == len(kinds)
        for i, s in enumerate(data.data):
            want, name = np.load(f"src/{s.key}.npy"), s.fields[0].name
            for got in (s.decode(name), data[i][name]):
                assert got.dtype == want.dtype and got.shape == want.shape, (codec, s.key, got.dtype)
                assert got.tobytes() == want.tobytes() and got.flags.writeable, (codec, s.key)
    assert python(STRUCTURED, "zstd") == len(kinds)


WDS = """
import glob, io, json, sys
import numpy as np
import slimset.wds, webdataset as wds
urls = sorted(glob.glob(sys.argv[1] + "/*.tar"))
out = {}
for s in wds.WebDataset(urls, shardshuffle=False).decode(slimset.wds):
    name = next(k for k in s if k.startswith("npy"))
    a = s[name]
    assert isinstance(a, np.ndarray) and a.flags.writeable, (name, type(a))
    want = np.load(f"src/{s['__key__']}.npy")
    assert a.dtype == want.dtype and a.shape == want.shape and np.array_equal(a, want), (name, a.dtype, a.shape)
    assert isinstance(s["txt"], str)  # what is none of ours is left to the others
    out[name] = out.get(name, 0) + 1
print(json.dumps(out))
"""


def test_arrays_through_webdataset_and_ours():
    rng = np.random.default_rng(2)
    for i in range(6):
        a = np.cumsum(rng.integers(-2, 3, (40, 50)), 1).astype("<f4") if i % 2 else rng.integers(0, 9, (7, 30, 4)).astype("<i2")
        os.makedirs("src", exist_ok=True)
        np.save(f"src/{i}.npy", np.asfortranarray(a) if i == 4 else a)
        write(f"src/{i}.txt", b"words")
    seen = set()
    for codec in ("zstd", "blosc:bitshuffle", "npy"):
        pack("src", "-o", codec[:4], "--array-codec", codec)
        data = slimset.open(codec[:4])
        for s in data:
            name = next(f for f in s if f.startswith("npy"))
            want = np.load(f"src/{s.key}.npy")
            got = s.decode(name)
            assert got.dtype == want.dtype and np.array_equal(got, want) and got.flags.writeable, (codec, s.key)
            seen.add(name)
        if codec != "npy":
            assert python(WDS, codec[:4]) == {name: 6}
        whole = slimset.torch.Dataset(codec[:4], decode="numpy")[0]
        assert isinstance(whole[name], np.ndarray) and whole["txt"] == b"words"
    assert seen == {"npy.zst", "npy.blosc", "npy"}, seen
    with raises(slimset.Error):
        slimset.wds.decode(".npy.zst", b"nonsense")
    assert slimset.wds.decode(".jpg", b"x") is None


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
