# SPDX-License-Identifier: Apache-2.0
"""Right pixels, judged by Pillow and numpy: sizes of every mode, orientation, masks, alpha, depth, codecs, quality.
Runs with SLIMSET_IN_PROCESS as well."""
import io
import os
import shutil
import struct
import zlib

import numpy as np
from PIL import Image

from _frame import files, jpeg, ls, main, members, pack, picture, psnr, rejects, run, save, write


def stored(out):
    """{key: {field: (bytes, record)}} through the index."""
    data = members(out)
    return {s["key"]: {f["name"]: (data[f"{s['key']}.{f['name']}"], f) for f in s["fields"]} for s in ls(out)}


def image(out, key, field):
    return Image.open(io.BytesIO(stored(out)[key][field][0]))


def expected_size(mode, w, h, upscale=False):
    name, value = mode.split(":")
    half_up = lambda x: max(1, int(np.floor(x + 0.5)))
    clamp = lambda s: s if upscale else min(1.0, s)
    if name in ("long", "short"):
        s = clamp(int(value) / (max if name == "long" else min)(w, h))
    elif name == "scale":
        s = clamp(float(value))
    elif name == "area":
        s = clamp((int(value) / (w * h)) ** 0.5)
    else:
        a, b = map(int, value.split("x"))
        if name == "exact":
            return (a, b) if upscale else (min(a, w), min(b, h))
        if name == "pad":
            return a, b
        s = clamp(max(a / w, b / h))
        return min(a, half_up(w * s)), min(b, half_up(h * s))
    return half_up(w * s), half_up(h * s)


def test_sizes_of_every_mode():
    sizes = [(640, 480), (481, 641), (101, 37), (33, 300), (1, 1), (400, 2), (64, 64), (255, 255)]
    for i, (w, h) in enumerate(sizes):
        save(f"src/j{i}.jpg", picture(w, h, i), quality=92)
        save(f"src/p{i}.png", picture(w, h, i))
    for n, (mode, up) in enumerate([("long:100", False), ("short:64", False), ("exact:90x70", False), ("crop:96x64", False),
                                    ("pad:120x80", False), ("area:5000", False), ("scale:0.3", False), ("long:100", True),
                                    ("crop:96x64", True), ("exact:90x70", True)]):
        pack("src", "-o", f"o{n}", "--resize", mode, "--no-detect", *(["--upscale"] if up else []))
        for key, fields in stored(f"o{n}").items():
            (data, record), = fields.values()
            i = int(key[1:])
            want = expected_size(mode, *sizes[i], up)
            im = Image.open(io.BytesIO(data))
            im.load()
            assert im.size == want == (record["width"], record["height"]), (mode, up, sizes[i], im.size, want)
            assert (record["source_width"], record["source_height"]) == sizes[i]


def test_close_to_pillow_at_every_ratio():
    rng = np.random.default_rng(4)
    shots = {}
    for i in range(24):
        w, h = int(rng.integers(60, 700)), int(rng.integers(60, 500))
        data = jpeg(picture(w, h, i), quality=95, subsampling=[0, 1, 2][i % 3])
        write(f"src/{i}.jpg", data)
        shots[str(i)] = Image.open(io.BytesIO(data)).convert("RGB")
    worse = []
    for target in (50, 113, 200):
        pack("src", "-o", f"o{target}", "--resize", f"long:{target}")
        for key, fields in stored(f"o{target}").items():
            data, record = fields["jpg"]
            if not record["notes"].count("resized"):
                continue
            ours = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            ideal = shots[key].resize((record["width"], record["height"]), Image.LANCZOS)
            b = io.BytesIO()
            ideal.save(b, "JPEG", quality=90, subsampling=2, optimize=True)
            theirs = np.asarray(Image.open(b).convert("RGB"))
            a, p = psnr(ours, ideal), psnr(theirs, ideal)
            edge = np.ones(ours.shape[:2], bool)
            edge[2:-2, 2:-2] = False
            worse.append((a - p, psnr(ours[edge], np.asarray(ideal)[edge]) - psnr(theirs[edge], np.asarray(ideal)[edge]),
                          len(data) / len(b.getvalue())))
    mean = np.mean(worse, axis=0)
    print("  dB against Pillow's own JPEG: all %.2f, edge %.2f; bytes %.3f (%d pictures)" % (*mean, len(worse)))
    assert mean[0] > -0.3 and mean[1] > -0.3 and mean[2] < 1.02, mean


UPRIGHT = {1: None, 2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
           6: Image.ROTATE_270, 7: Image.TRANSVERSE, 8: Image.ROTATE_90}


def with_orientation(data, o):
    tiff = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, 3, 1, o, 0) + b"\0\0\0\0"
    body = b"Exif\0\0" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:]


def test_orientation_is_baked_in():
    a = picture(121, 80, 3)
    for o in range(0, 10):
        for sub in (0, 2):
            write(f"src/o{o}s{sub}.jpg", with_orientation(jpeg(a, quality=98, subsampling=sub), o))
    for n, args in enumerate((["--resize", "long:61"], ["--resize", "long:500"], ["--resize", "crop:40x40"])):
        pack("src", "-o", f"o{n}", *args)
        for key, fields in stored(f"o{n}").items():
            data, record = fields["jpg"]
            o = int(key[1])
            im = Image.open(io.BytesIO(data))
            assert im.getexif().get(0x112, 1) == 1
            up = Image.fromarray(a)
            if UPRIGHT.get(o) is not None:
                up = up.transpose(UPRIGHT[o])
            if n < 2:
                assert im.size == (up.size if n else expected_size("long:61", *up.size)), (key, im.size)
                want = up.resize(im.size, Image.LANCZOS)
                assert psnr(im.convert("RGB"), want) > 33, (key, n, psnr(im.convert("RGB"), want))
            assert ("rotated" in record["notes"]) == (2 <= o <= 8), (key, record)
    pack("o0", "-o", "again", code=None)  # a second pass over our own shards changes nothing
    data = {k: v["jpg"][0] for k, v in stored("o0").items()}
    os.makedirs("flat")
    for k, v in data.items():
        write(f"flat/{k}.jpg", v)
    pack("flat", "-o", "twice", "--resize", "long:61")
    assert {k: v["jpg"][0] for k, v in stored("twice").items()} == data


def test_masks_are_nearest_and_exact():
    rng = np.random.default_rng(9)
    masks = {}
    for i in range(12):
        w, h = int(rng.integers(40, 300)), int(rng.integers(40, 300))
        write(f"src/{i}.jpg", jpeg(picture(w, h, i)))
        labels = rng.choice([0, 1, 15, 255], (h // 8 + 1, w // 8 + 1)).astype(np.uint8)
        labels = np.kron(labels, np.ones((8, 8), np.uint8))[:h, :w]
        im = Image.fromarray(labels, "P" if i % 2 else "L")
        if i % 2:
            im.putpalette(list(range(256)) * 3)
        im.save(f"src/{i}.mask.png")
        masks[str(i)] = im
    pack("src", "-o", "out", "--resize", "long:57")
    for key, fields in stored("out").items():
        got = Image.open(io.BytesIO(fields["mask.png"][0]))
        shot = Image.open(io.BytesIO(fields["jpg"][0]))
        want = masks[key].resize(shot.size, Image.NEAREST)
        assert got.mode == want.mode and got.size == shot.size
        (w, h), (tw, th), source = masks[key].size, got.size, np.asarray(masks[key])
        x, y = (2 * np.arange(tw) + 1) * w, (2 * np.arange(th) + 1) * h  # floor((i + 0.5) * W / T) in integers
        assert np.array_equal(np.asarray(got), source[(y // (2 * th))[:, None], (x // (2 * tw))[None]]), key
        differs = np.asarray(got) != np.asarray(want)  # Pillow adds up doubles: it may slip where the quotient is whole
        assert not differs[(y % (2 * th) != 0)[:, None] & (x % (2 * tw) != 0)[None]].any(), key
        if got.mode == "P":
            top = int(np.asarray(want).max())
            assert got.getpalette()[:3 * top + 3] == want.getpalette()[:3 * top + 3]


def test_small_depths_as_masks_and_depth_maps():
    rng = np.random.default_rng(2)
    os.makedirs("src/mask")
    os.makedirs("src/depth")
    for i, bits in enumerate((1, 2, 4)):
        values = rng.integers(0, 1 << bits, (40, 60)).astype(np.uint8)
        rows = np.unpackbits(values[..., None], axis=2, count=8)[..., 8 - bits:].reshape(40, 60 * bits)
        body = b"".join(b"\0" + np.packbits(r).tobytes() for r in rows)
        chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60, 40, bits, 0, 0, 0, 0)) + \
            chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")
        for kind in ("mask", "depth"):
            write(f"src/{kind}/{bits}.png", png)
    for n, args in enumerate((["--resize", "30"], ["--resize", "pad:50x50"])):
        pack("src", "-o", f"o{n}", *args, "--mask", "mask/*", "--depth-map", "depth/*")
        for key, fields in stored(f"o{n}").items():
            data, record = fields["png"]
            assert record["bits"] == int(key[-1]), record
            top = (1 << record["bits"]) - 1
            got = np.asarray(Image.open(io.BytesIO(data)).convert("L")).astype(int) * top // 255
            want = np.asarray(Image.open(f"src/{key}.png").convert("L")).astype(int) * top // 255
            if n == 0:
                assert np.array_equal(got, want[1::2, 1::2]), key
            else:
                assert got.shape == (50, 50) and (got[:8] == 0).all() and (got[-8:] == 0).all(), key


def test_mask_of_another_size_is_a_reject():
    write("src/1.jpg", jpeg(picture(80, 60)))
    save("src/1.mask.png", np.zeros((30, 40), np.uint8))
    write("src/2.jpg", jpeg(picture(80, 60)))
    save("src/2.mask.png", np.zeros((60, 80), np.uint8))
    pack("src", "-o", "out", "--resize", "40", code=3)
    assert {k: v["class"] for k, v in rejects("out").items()} == {"1.mask.png": "pair"}


def test_alpha():
    a = picture(64, 48, 1)
    opaque = np.dstack([a, np.full((48, 64), 255, np.uint8)])
    hidden = np.dstack([np.broadcast_to(np.uint8([0, 255, 0]), (48, 64, 3)).copy(), np.full((48, 64), 255, np.uint8)])
    hidden[:, :32, :3] = (255, 0, 0)
    hidden[:, 32:, 3] = 0
    for i in range(5):
        save(f"src/a/o{i}.png", opaque)
        save(f"src/a/h{i}.png", hidden)
    pack("src", "-o", "out", "--codec", "jpeg", "--quality", "100", "--subsampling", "444", "--resize", "32")
    s = stored("out")
    white = np.asarray(Image.open(io.BytesIO(s["a/h0"]["jpg"][0])))
    assert np.abs(white[:, 18:].astype(int) - 255).max() <= 3, "transparent half is white"
    assert np.abs(white[:, :13].astype(int) - (255, 0, 0)).max() <= 6
    assert (white[:, :, 1].astype(int) <= white[:, :, 0].astype(int) + 4).all(), "no green bleeds"
    assert "flattened" in s["a/h0"]["jpg"][1]["notes"] and "alpha-dropped" in s["a/o0"]["jpg"][1]["notes"]
    pack("src", "-o", "png", "--codec", "png", "--resize", "32", "--alpha", "keep")
    kept = np.asarray(Image.open(io.BytesIO(stored("png")["a/h0"]["png"][0])))
    assert kept.shape == (24, 32, 4) and (kept[:, 20:, 3] == 0).all() and (kept[:, :12] == (255, 0, 0, 255)).all()
    pack("src", "-o", "rej", "--codec", "jpeg", "--alpha", "reject", "--resize", "32", code=3)
    assert {v["class"] for v in rejects("rej").values()} == {"alpha"}


def test_16_bits_are_kept_or_scaled_but_never_clipped():
    ramp = (np.arange(80 * 60).reshape(60, 80) * 13).astype(np.uint16)
    os.makedirs("src")
    for i in range(4):
        Image.fromarray(ramp + i).save(f"src/{i}.png")
    pack("src", "-o", "keep", "--resize", "1000")
    got = np.asarray(Image.open(io.BytesIO(stored("keep")["0"]["png"][0])))
    assert np.array_equal(got, ramp)
    pack("src", "-o", "small", "--resize", "40", "--image", "*.png")
    data, record = stored("small")["0"]["png"]
    im = np.asarray(Image.open(io.BytesIO(data)))
    assert im.shape == (30, 40) and im.max() > 255 and record["bits"] == 16
    pack("src", "-o", "scaled", "--codec", "png", "--depth", "8:0,62400", "--image", "*.png")
    got = np.asarray(Image.open(io.BytesIO(stored("scaled")["0"]["png"][0]))).astype(int)
    assert np.abs(got - np.floor(ramp * 255.0 / 62400 + 0.5)).max() <= 1
    os.makedirs("src12")
    for i in range(4):
        Image.fromarray(ramp % 4096).save(f"src12/{i}.png")
    p = pack("src12", "-o", "refused", "--codec", "jpeg", "--image", "*.png", code=3)
    assert {v["class"] for v in rejects("refused").values()} == {"depth"} and "--depth" in p.err


def scaled(a, lo, hi):
    return np.clip(np.floor((a.astype(float) - lo) * 255 / (hi - lo) + 0.5), 0, 255)


def test_depth_auto_is_one_range_for_the_field():
    rng = np.random.default_rng(8)
    os.makedirs("src")
    shots = {str(i): rng.integers(700 + 10 * i, 3000 + 50 * i, (40, 50)).astype(np.uint16) for i in range(10)}
    for k, a in shots.items():
        Image.fromarray(a).save(f"src/{k}.png")
    save("src/eight.png", picture(50, 40, 1, channels=1))
    lo, hi = min(a.min() for a in shots.values()), max(a.max() for a in shots.values())
    p = pack("src", "-o", "out", "--depth", "8:auto", "--image", "*.png", "--codec", "png")
    assert f"{lo} to {hi}" in p.err, p.err
    for key, fields in stored("out").items():
        data, record = fields["png"]
        got = np.asarray(Image.open(io.BytesIO(data)))
        assert got.dtype == np.uint8 and record["bits"] == 8
        if key == "eight":
            assert np.array_equal(got, np.asarray(Image.open("src/eight.png")))
        else:
            assert np.array_equal(got, scaled(shots[key], lo, hi)), key
            assert "scaled-8bit" in record["notes"] and "clipped" not in record["notes"]
    # frozen: files that come later are scaled alike, and what they have beyond the range is told
    late = np.concatenate([shots["3"], np.full((1, 50), 60000, np.uint16), np.full((1, 50), 3, np.uint16)])
    Image.fromarray(late).save("src/late.png")
    p = pack("src", "-o", "out", "--depth", "8:auto", "--image", "*.png", "--codec", "png")
    data, record = stored("out")["late"]["png"]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), scaled(late, lo, hi)) and "clipped" in record["notes"]
    assert "1 images have values outside" in p.err, p.err
    p = pack("src", "-o", "out", "--depth", "8:auto", "--image", "*.png", "--codec", "png", "--replan")
    assert "3 to 60000" in p.err, p.err
    data, record = stored("out")["late"]["png"]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), scaled(late, 3, 60000)) and "clipped" not in record["notes"]
    # no file with 16 bits was looked at: there is no range to scale by
    os.makedirs("other")
    save("other/a.png", picture(50, 40, 1, channels=1))
    pack("other", "-o", "o2", "--depth", "8:auto", "--image", "*.png", "--codec", "png")
    Image.fromarray(late).save("other/b.png")
    pack("other", "-o", "o2", "--depth", "8:auto", "--image", "*.png", "--codec", "png", code=3)
    assert rejects("o2")["b.png"]["class"] == "depth" and "8:auto" in rejects("o2")["b.png"]["reason"]


def test_depth_auto_is_one_range_for_extensions_and_sections():
    shots = {}
    for i in range(12):
        a = (np.arange(2000, dtype=np.uint16) % 50 * (i + 1) + 100 if i < 6 else np.arange(2000, dtype=np.uint16) * 30 + i).reshape(40, 50)
        shots[f"{i:02}"] = a.astype(np.uint16)
        os.makedirs("ext/images", exist_ok=True)
        Image.fromarray(a.astype(np.uint16)).save(f"ext/images/{i:02}.{'png' if i < 6 else 'tif'}")
        os.makedirs(f"sec/{'train' if i < 6 else 'val'}", exist_ok=True)
        Image.fromarray(a.astype(np.uint16)).save(f"sec/{'train' if i < 6 else 'val'}/{i:02}.png")
    lo, hi = min(a.min() for a in shots.values()), max(a.max() for a in shots.values())
    with open("s.conf", "w") as f:
        f.write('codec = png\ndepth = 8:auto\n[rule "val/*"]\nquality = 80\n')
    pack("ext", "-o", "ext.out", "--codec", "png", "--depth", "8:auto", "--field", "image=images/{}.*")
    pack("sec", "-o", "sec.out", "--config", "s.conf", "--image", "*.png")
    for out in ("ext.out", "sec.out"):
        found = stored(out)
        assert len(found) == 12, found.keys()
        for key, fields in found.items():
            got = np.asarray(Image.open(io.BytesIO(fields["png"][0])))
            assert np.array_equal(got, scaled(shots[key[-2:]], lo, hi)), (out, key)
    # an extension that comes later takes the range that was frozen
    os.makedirs("late/images")
    for i in range(6):
        shutil.copy(f"ext/images/{i:02}.png", "late/images")
    pack("late", "-o", "late.out", "--codec", "png", "--depth", "8:auto", "--field", "image=images/{}.*")
    shutil.copy("ext/images/11.tif", "late/images")
    pack("late", "-o", "late.out", "--codec", "png", "--depth", "8:auto", "--field", "image=images/{}.*")
    lo, hi = min(shots[f"{i:02}"].min() for i in range(6)), max(shots[f"{i:02}"].max() for i in range(6))
    for key, fields in stored("late.out").items():
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(fields["png"][0]))), scaled(shots[key[-2:]], lo, hi)), key


def test_low_byte_is_dropped_only_from_full_range_fields():
    rng = np.random.default_rng(1)
    kinds = {"full": [65535, 40000], "dark": [32767, 4095], "mixed": [65535, 65535]}
    for kind, tops in kinds.items():
        os.makedirs(f"{kind}")
        for i, top in enumerate(tops):
            a = rng.integers(0, top + 1, (60, 80)).astype(np.uint16)
            a[7, 9] = top
            Image.fromarray(a).save(f"{kind}/{i}.png")
    save("mixed/8bit.png", picture(80, 60, 3, channels=1))
    pack("full", "-o", "o1", "--codec", "jpeg", "--image", "*.png", "--quality", "100")
    for key, fields in stored("o1").items():
        want = np.asarray(Image.open(f"full/{key}.png")) >> 8
        assert np.abs(np.asarray(Image.open(io.BytesIO(fields["jpg"][0]))).astype(int) - want).max() <= 3
        assert "scaled-8bit" in fields["jpg"][1]["notes"]
    pack("dark", "-o", "o2", "--codec", "jpeg", "--image", "*.png", code=3)
    assert {k: v["class"] for k, v in rejects("o2").items()} == {"0.png": "depth", "1.png": "depth"}
    pack("mixed", "-o", "o3", "--codec", "jpeg", "--image", "*.png", code=3)
    assert {k: v["class"] for k, v in rejects("o3").items()} == {"0.png": "depth", "1.png": "depth"}
    assert set(stored("o3")) == {"8bit"}


def test_raw_and_png_equal_what_pillow_decodes():
    for i in range(3):
        write(f"src/{i}.jpg", jpeg(picture(75 + i, 51, i), subsampling=2))
    write("src/gray.jpg", jpeg(picture(40, 30, 9, channels=1)))
    pack("src", "-o", "raw", "--codec", "raw")
    pack("src", "-o", "png", "--codec", "png")
    for key, fields in stored("raw").items():
        want = np.asarray(Image.open(f"src/{key}.jpg"))
        got = np.load(io.BytesIO(fields["npy"][0]))
        assert got.dtype == np.uint8 and np.array_equal(got, want.reshape(got.shape)), key
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored("png")[key]["png"][0]))), want), key
    run("verify", "raw", "--decode", code=0)


def test_lossless_pack_keeps_every_byte():
    for i in range(5):
        write(f"src/{i}.jpg", with_orientation(jpeg(picture(60, 40, i)), 6))
        save(f"src/p{i}.png", picture(60, 40, i))
    pack("src", "-o", "out")
    for key, fields in stored("out").items():
        for name, (data, record) in fields.items():
            assert data == open(f"src/{record['path']}", "rb").read()
            if name == "jpg":
                assert (record["width"], record["height"]) == (40, 60), "the index has the upright size"
    p = pack("src", "-o", "out")
    assert "nothing had changed" in p.out


def test_already_small_files_are_copied_without_metadata():
    small = with_orientation(jpeg(picture(90, 60, 2)), 1)
    write("src/small.jpg", small)
    write("src/big.jpg", jpeg(picture(300, 200, 3)))
    pack("src", "-o", "out", "--resize", "100")
    data, record = stored("out")["small"]["jpg"]
    assert record["notes"] == ["copied", "stripped"], record
    assert b"Exif" not in data and np.array_equal(np.asarray(Image.open(io.BytesIO(data))), np.asarray(Image.open(io.BytesIO(small))))
    pack("src", "-o", "meta", "--resize", "100", "--keep-metadata")
    assert stored("meta")["small"]["jpg"][0] == small
    pack("src", "-o", "all", "--resize", "100", "--reencode", "all", "--quality", "50")
    assert "reencoded" in stored("all")["small"]["jpg"][1]["notes"]


def test_formats_through_libvips():
    doctor = os.environ.get("SLIMSET_NO_VIPS")
    if doctor:
        print("skip test_formats_through_libvips: this build has no libvips")
        return
    a = picture(90, 60, 5)
    for ext, k in (("tif", {}), ("webp", {"lossless": True}), ("gif", {}), ("bmp", {}), ("ppm", {})):
        save(f"src/{ext}/a.{ext}", a, **k)
        save(f"src/{ext}/b.{ext}", a, **k)
    pack("src", "-o", "out", "--codec", "png")
    for key, fields in stored("out").items():
        ext = key.split("/")[0]
        want = np.asarray(Image.open(f"src/{ext}/a.{ext}").convert("RGB"))
        got = np.asarray(Image.open(io.BytesIO(fields["png"][0])).convert("RGB"))
        assert np.array_equal(got, want), ext
    pack("src", "-o", "webp", "--codec", "webp", "--quality", "95", "--resize", "45")
    for key, fields in stored("webp").items():
        im = Image.open(io.BytesIO(fields["webp"][0]))
        assert im.format == "WEBP" and im.size == (45, 30), key


def test_cmyk_is_pillows_plain_formula():
    a = np.zeros((32, 64, 4), np.uint8)
    for k, c in enumerate(((0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 255))):
        a[:, 16 * k:16 * k + 16] = c
    os.makedirs("src")
    Image.fromarray(a, "CMYK").save("src/c.jpg", quality=100)
    pack("src", "-o", "out", "--codec", "png")
    got = np.asarray(Image.open(io.BytesIO(stored("out")["c"]["png"][0]))).astype(int)
    want = np.asarray(Image.open("src/c.jpg").convert("RGB")).astype(int)
    assert np.abs(got - want).max() <= 1, np.abs(got - want).max()


def test_channels():
    for i in range(3):
        write(f"src/g{i}.jpg", jpeg(picture(60, 40, i, channels=1)))
        write(f"src/c{i}.jpg", jpeg(picture(60, 40, i)))
    pack("src", "-o", "three", "--channels", "3", "--resize", "30")
    for key, fields in stored("three").items():
        im = Image.open(io.BytesIO(fields["jpg"][0]))
        assert im.mode == "RGB"
        if key[0] == "g":
            b = np.asarray(im)
            assert (b[..., 0] == b[..., 1]).all() and (b[..., 1] == b[..., 2]).all()
    pack("src", "-o", "one", "--channels", "1", "--resize", "30")
    for key, fields in stored("one").items():
        im = Image.open(io.BytesIO(fields["jpg"][0]))
        assert im.mode == "L"
        want = Image.open(f"src/{key}.jpg").convert("L").resize(im.size, Image.LANCZOS)
        assert psnr(im, want) > 33


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
