# SPDX-License-Identifier: Apache-2.0
"""Masks and depth maps: which values they have afterwards, judged by numpy. Runs with SLIMSET_IN_PROCESS as well."""
import io
import json
import os

import numpy as np
from PIL import Image

from _frame import jpeg, ls, main, members, pack, picture, rejects, save, write


def stored(out):
    """{key: {field: (image, record)}} through the index."""
    data = members(out)
    return {s["key"]: {f["name"]: (Image.open(io.BytesIO(data[f"{s['key']}.{f['name']}"])), f) for f in s["fields"]}
            for s in ls(out)}


def votes(n, t, i):
    """The source indices that vote for output i when n become t: those with i n / t <= x + 1/2 < (i + 1) n / t."""
    x = 2 * np.arange(n) + 1
    inside = np.flatnonzero((x * t >= 2 * i * n) & (x * t < 2 * (i + 1) * n))
    return inside if len(inside) else np.array([(2 * i + 1) * n // (2 * t)])


def majority(a, w, h):
    out = np.zeros((h, w) + a.shape[2:], a.dtype)
    rows, columns = [votes(a.shape[0], h, i) for i in range(h)], [votes(a.shape[1], w, i) for i in range(w)]
    for y in range(h):
        for x in range(w):
            cell = a[rows[y]][:, columns[x]].reshape(-1, *a.shape[2:])
            values, counts = np.unique(cell, axis=0, return_counts=True)  # sorted: argmax is the smallest of equals
            out[y, x] = values[counts.argmax()]
    return out


def blobs(rng, w, h, values, size=5):
    small = rng.choice(values, (h // size + 1, w // size + 1))
    return np.kron(small, np.ones((size, size), small.dtype))[:h, :w]


def make_masks(seed):
    """Gray, palette, 16-bit and colour masks beside photographs; {key: array}."""
    rng = np.random.default_rng(seed)
    masks = {}
    for i in range(12):
        w, h = int(rng.integers(40, 200)), int(rng.integers(40, 200))
        write(f"src/{i}.jpg", jpeg(picture(w, h, i)))
        kind = i % 4
        if kind == 2:
            a = blobs(rng, w, h, np.array([0, 1, 300, 65535], np.uint16))
        else:
            a = blobs(rng, w, h, np.array([0, 1, 7, 15, 255], np.uint8))
        noise = rng.random((h, w)) < 0.1
        a[noise] = rng.choice(np.array([0, 1, 7], a.dtype), noise.sum())
        if kind == 3:
            a = np.stack([a, np.roll(a, 3, 0), 255 - a], 2)
        im = Image.fromarray(a) if kind != 1 else Image.fromarray(a, "P")
        if kind == 1:
            im.putpalette([v * 7 % 256 for v in range(768)])
        im.save(f"src/{i}.mask.png")
        masks[str(i)] = a
    return masks


def lost(before, after):
    flat = lambda a: set(map(tuple, a.reshape(-1, a.shape[2]).tolist())) if a.ndim == 3 else set(a.ravel().tolist())
    return len(flat(before) - flat(after))


def test_majority_is_the_most_frequent_value():
    masks = make_masks(1)
    for n, mode in enumerate(("long:37", "exact:50x23")):
        pack("src", "-o", f"o{n}", "--resize", mode, "--mask", "*.mask.png", "--mask-filter", "majority")
        total = 0
        for key, fields in stored(f"o{n}").items():
            im, record = fields["mask.png"]
            got, a = np.asarray(im), masks[key]
            assert np.array_equal(got.astype(a.dtype), majority(a, *im.size)), (mode, key)
            assert im.size == fields["jpg"][0].size
            assert "majority" in record["notes"] and "nearest" not in record["notes"]
            assert record["classes_lost"] == lost(a, got), (key, record)
            total += record["classes_lost"]
            if int(key) % 4 == 1:
                top = int(got.max())
                assert im.mode == "P" and im.getpalette()[:3 * top + 3] == [v * 7 % 256 for v in range(3 * top + 3)]
        p = pack("src", "-o", f"o{n}", "--resize", mode, "--mask", "*.mask.png", "--mask-filter", "majority", "--json")
        assert json.loads(p.out.splitlines()[-1])["classes_lost"] == total


def test_majority_when_cropped_padded_turned_and_enlarged():
    a = blobs(np.random.default_rng(3), 96, 64, np.array([1, 2, 3], np.uint8), 3)
    save("src/m.png", a)
    tiff = Image.fromarray(a)
    tiff.save("src/t.tif", tiffinfo={274: 6})
    both = lambda *args: {k: list(v.values())[0][0] for k, v in stored_after(*args).items()}

    def stored_after(out, *args):
        pack("src", "-o", out, "--mask", "*", "--mask-filter", "majority", *args)
        return stored(out)
    pad = both("pad", "--resize", "pad:24x24")
    assert np.array_equal(np.asarray(pad["m"])[4:20], majority(a, 24, 16)) and (np.asarray(pad["m"])[:4] == 0).all()
    crop = np.asarray(both("crop", "--resize", "crop:32x32")["m"])  # the middle 64 x 64 to 32 x 32
    assert np.array_equal(crop, majority(a[:, 16:80], 32, 32))
    up = both("up", "--resize", "exact:130x100", "--upscale")["m"]
    assert np.array_equal(np.asarray(up), majority(a, 130, 100))
    turned = np.asarray(both("half", "--resize", "scale:0.5")["t"])
    assert np.array_equal(turned, np.rot90(majority(a, 48, 32), -1))


def test_a_photograph_is_no_mask_to_count():
    noise = np.random.default_rng(5).integers(0, 256, (400, 400, 3)).astype(np.uint8)
    save("src/n.png", noise)
    pack("src", "-o", "out", "--resize", "4", "--mask", "*", "--mask-filter", "majority", code=3)
    assert rejects("out")["n.png"]["class"] == "unsupported" and "65536 colours" in rejects("out")["n.png"]["reason"]


def test_lost_classes_are_counted_and_summed():
    for i in range(3):
        a = np.zeros((64, 64), np.uint8)
        a[1, 1] = 9  # between the points that nearest looks at
        a[2, 3 * i] = 5 if i else 0
        save(f"src/{i}.png", a)
        write(f"src/{i}.jpg", jpeg(picture(64, 64, i)))
    pack("src", "-o", "out", "--resize", "16", "--mask", "*.png")
    want = {}
    for i in range(3):
        a = np.asarray(Image.open(f"src/{i}.png"))
        want[str(i)] = lost(a, a[2::4, 2::4])
    got = {k: v["png"][1]["classes_lost"] for k, v in stored("out").items()}
    assert got == want and sum(want.values()) > 3, (got, want)
    p = pack("src", "-o", "out", "--resize", "16", "--mask", "*.png")
    assert f"3 masks lost {sum(want.values())} classes" in p.out, p.out
    assert "3  classes-lost" in p.out


def test_depth_maps_are_never_counted():
    """Sparse depth: nearest whatever --mask-filter says, 16 bits kept, no value made up, zeros stay zeros."""
    rng = np.random.default_rng(7)
    os.makedirs("src/rgb")
    os.makedirs("src/depth")
    maps = {}
    for i in range(6):
        a = rng.integers(500, 65535, (90, 122)).astype(np.uint16)
        a[rng.random(a.shape) < 0.6] = 0
        Image.fromarray(a).save(f"src/depth/{i}.png")
        write(f"src/rgb/{i}.jpg", jpeg(picture(122, 90, i)))
        maps[str(i)] = a
    pack("src", "-o", "out", "--resize", "61", "--mask-filter", "majority", "--depth", "8:auto")
    seen = 0
    for key, fields in stored("out").items():
        for im, record in fields.values():
            if record["role"] != "depth":
                continue
            a = maps[key.split("/")[-1]]
            y, x = (2 * np.arange(45) + 1) * 90 // 90, (2 * np.arange(61) + 1) * 122 // 122
            assert np.array_equal(np.asarray(im), a[y][:, x]) and record["bits"] == 16
            assert record["classes_lost"] == 0 and "nearest" in record["notes"]
            seen += 1
    assert seen == 6


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
