# SPDX-License-Identifier: Apache-2.0
"""What Python hands to C: numbers out of range, words that are none, wrong types. An error that names the value, or the right
answer; nothing wraps around."""
import os

import numpy as np
from PIL import Image

import slimset
import slimset.torch
from _frame import main, pack, photos, python, raises

BIG = (2 ** 31, 2 ** 32, 2 ** 32 + 3, 2 ** 63, 2 ** 64 + 3, -1, -2 ** 32)


def source():
    photos("src", 6, 90, 70)
    pack("src", "-o", "out")
    return slimset.open("out")


def test_boxes():
    data = source()
    h, w = data.image_size(0)
    whole = data.decode(0)
    for big in BIG:
        for at in range(4):
            box = [0, 0, 5, 5]
            box[at] = big
            with raises(ValueError, str(big)):
                data.decode(0, crop=box)
            with raises(ValueError):
                data.read_batch([0], (8, 8), boxes=[box])
    for box in ((0, 0, 0, 5), (0, 0, 5, 0), (0, 0, 0, 0)):
        with raises(ValueError, "1 to"):
            data.decode(0, crop=box)
        with raises(ValueError, "boxes[1]", str(list(box))):
            data.read_batch([0, 1], (8, 8), boxes=[(0, 0, 5, 5), box])
    for box in ((1.5, 0, 5, 5), (float("nan"), 0, 5, 5), (0, 0, float("inf"), 5), ("a", 0, 5, 5), (None, 0, 5, 5), (0, 0, 5), 7):
        with raises((ValueError, TypeError)):
            data.decode(0, crop=box)
        with raises((ValueError, TypeError)):
            data.read_batch([0], (8, 8), boxes=[box])
    for box in ((0, 0, h + 1, 5), (0, 0, 5, w + 1), (h, 0, 1, 1)):
        with raises(slimset.UsageError):
            data.decode(0, crop=box)
        with raises(slimset.UsageError):
            data.read_batch([0], (8, 8), boxes=[box])
    want = whole[3:13, 4:24]
    for kind in (int, np.int64, np.uint8):
        assert np.array_equal(data.decode(0, crop=[kind(v) for v in (3, 4, 10, 20)]), want)
    for table in ([(3, 4, 10, 20)], [(3.0, 4.0, 10.0, 20.0)], np.array([[3, 4, 10, 20]], np.uint8), np.array([[3, 4, 10, 20]], ">i8")):
        assert np.array_equal(data.read_batch([0], (10, 20), boxes=table)[0], data.read_batch([0], (10, 20), boxes=[[3, 4, 10, 20]])[0])
    with raises(ValueError, "(2, 4)"):
        data.read_batch([0, 1], (8, 8), boxes=[(0, 0, 5, 5)])
    assert data.read_batch([], (8, 8), boxes=[]).shape == (0, 8, 8, 3)


def test_numbers():
    data = source()
    for bad in (2, 5, 6, 256, 257, 259, -1, 2 ** 32 + 3, 3.5, "3", [3]):
        for call in (lambda: data.decode(0, channels=bad), lambda: data.read_batch([0], (8, 8), channels=bad)):
            with raises(ValueError, "channels", repr(bad)):
                call()
    for bad in (0, 3, 16, 257, 258, -1, None, 2 ** 32 + 1):
        with raises(ValueError, "scale", repr(bad)):
            data.decode(0, scale=bad)
    for bad in BIG + (0,):
        for size in ((bad, 4), (4, bad)):
            with raises(ValueError, "size", str(bad)):
                data.read_batch([0], size)
    for size in (8, (8,), (8, 8, 8), (8.5, 8), (8.0, 8), None, "ab"):
        with raises((ValueError, TypeError), "size"):
            data.read_batch([0], size)
    for bad in (-1, 2 ** 31, 2 ** 32 + 2):
        with raises(ValueError, "threads", str(bad)):
            data.read_batch([0], (8, 8), threads=bad)
    with raises(TypeError, "threads"):
        data.read_batch([0], (8, 8), threads=1.5)
    want = data.read_batch([0], (8, 9), channels=1, threads=1000)
    assert want.shape == (1, 8, 9, 1)
    assert np.array_equal(data.read_batch([0], np.array([8, 9]), channels=np.int64(1), threads=np.uint8(2)), want)
    assert np.array_equal(data.decode(0, channels=np.int8(3), scale=np.int64(2)), data.decode(0, scale=2))


def test_samples():
    data = source()
    for bad in (6, -7, 2 ** 63, 2 ** 64 - 1, 2 ** 64, 2 ** 70, -2 ** 70):
        for call in (lambda: data[bad], lambda: data.read(bad, "jpg"), lambda: data.read_batch([0, bad], (4, 4)),
                     lambda: data.prefetch([bad])):
            with raises(IndexError, str(bad), "6"):
                call()
    for bad in (np.array([2 ** 64 - 1], np.uint64), np.array([2 ** 63 + 1], np.uint64), np.array([-7], np.int8), np.array([6], np.uint8)):
        with raises(IndexError, str(bad[0])):
            data.read_batch(bad, (4, 4))
    for bad in ([0.0], [True], ["a"], [data[0].key], [None], [[1]], 5, {1, 2}, slice(3), [data[0]]):
        with raises(ValueError, "numbers"):
            data.read_batch(bad, (4, 4))
    want = data.read_batch([5, 1], (4, 4))
    for good in ((5, 1), [-1, 1], np.array([5, 1], np.uint8), np.array([5, 1], ">i8"), np.array([5, 1], np.uint64), range(5, 0, -4)):
        assert np.array_equal(data.read_batch(good, (4, 4)), want), good
    for bad in (1.0, None, [1], b"", b"0", (1, 2), {}, object()):
        with raises(TypeError, repr(bad)):
            data[bad]
        assert bad not in data
    for name in ("\ud800", "a\ud800", "", "a\0b", "x" * 100000):
        assert name not in data and name not in data[0]
        with raises(KeyError):
            data[name]
        with raises(KeyError):
            data[0][name]
        assert data[0].get(name, 7) == 7
        with raises(KeyError):
            data.read_batch([0], (4, 4), field=name)
    assert data[np.uint8(5)].number == 5 and data[np.array(-1)].number == 5


def test_words():
    data = source()
    chw = data.decode(0, layout="chw")
    assert np.array_equal(data.decode(0, layout="CHW"), chw) and np.array_equal(chw.transpose(1, 2, 0), data.decode(0, layout="HWC"))
    batch = data.read_batch([0], (30, 20), layout="CHW", fit="centre")
    assert batch.shape == (1, 3, 30, 20)
    for word in ("center", "Centre", "CENTER"):
        assert np.array_equal(data.read_batch([0], (30, 20), layout="chw", fit=word), batch)
    for bad in ("nchw", "", None, 1, [1], b"chw"):
        for call in (lambda: data.decode(0, layout=bad), lambda: data.read_batch([0], (8, 8), layout=bad)):
            with raises(ValueError, "layout", repr(bad), "'chw'"):
                call()
        with raises(ValueError, "fit", repr(bad), "'exact'"):
            data.read_batch([0], (8, 8), fit=bad)
        if bad is not None:
            with raises(ValueError, "preload", repr(bad), "'ram'"):
                slimset.open("out", preload=bad)
    for bad in ([1], True, np.zeros((1, 8, 8, 3))):
        with raises(ValueError, "out"):
            data.read_batch([0], (8, 8), out=bad)


def test_sizes_for_torch():
    source()
    whole = slimset.torch.Dataset("out")
    for crop in (np.int64(20), (np.int32(20), 20), [20, 20], np.array([20, 20])):
        assert slimset.torch.Dataset("out", crop=crop)[0][0].shape == (20, 20, 3), crop
        assert slimset.torch.Dataset("out", size=crop)[0][0].shape == (20, 20, 3), crop
    for bad in (0, -1, (20, 0), (20,), 2 ** 32 + 20):
        for name in ("crop", "size"):
            with raises(ValueError):
                slimset.torch.Dataset("out", **{name: bad})
    for bad in (1.5, "20", (20.0, 20)):
        with raises((TypeError, ValueError), "size"):
            slimset.torch.Dataset("out", size=bad)
    with raises(ValueError, "top"):
        slimset.torch.Dataset("out", crop=lambda h, w: (-1, 0, 5, 5))[0]
    with raises(IndexError, "6"):
        whole[2 ** 64]


FIFO = """
import json, slimset, sys
try:
    slimset.open(sys.argv[1])
except slimset.Error as e:
    print(json.dumps([type(e).__name__, str(e)]))
"""


def test_an_index_that_is_a_fifo():
    source()
    os.remove("out/slimset.index")
    os.mkfifo("out/slimset.index")
    kind, text = python(FIFO, "out")
    assert kind in ("DamagedError", "NotFoundError", "ReadError") and "slimset.index" in text, (kind, text)


def test_files_with_an_orientation_that_were_kept():
    exif = Image.Exif()
    exif[0x0112] = 6
    os.makedirs("turned")
    photos("plain", 1, 64, 48)
    picture = next(os.path.join(d, n) for d, _, files in os.walk("plain") for n in files)
    Image.open(picture).save("turned/a.jpg", exif=exif)
    pack("turned", "-o", "kept")
    pack("turned", "-o", "baked", "--resize", "long:32")
    kept, baked = slimset.open("kept"), slimset.open("baked")
    stored = np.asarray(Image.open("turned/a.jpg").convert("RGB"))
    h, w = stored.shape[:2]
    f = kept[0].fields[0]
    assert f.orientation == 6 and (f.height, f.width) == (w, h) == (kept.metadata["height"][0], kept.metadata["width"][0])
    assert np.array_equal(kept.decode(0), stored) and kept.image_size(0) == (h, w)
    g = baked[0].fields[0]
    assert g.orientation == 1 and baked.decode(0).shape[:2] == baked.image_size(0) == (g.height, g.width), "turned already"
    assert g.height > g.width if w > h else g.width > g.height


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
