# SPDX-License-Identifier: Apache-2.0
"""Each option about pixels does what its help says; where other files have the whole matter (sizes, depth, masks, colour, --min-ssim), the
value of the option that they leave out. Judged by Pillow and numpy. Runs with SLIMSET_IN_PROCESS as well."""
import io
import os

import numpy as np
from PIL import Image

from _frame import jpeg, ls, main, members, pack, picture, psnr, rejects, run, save, write


def stored(out):
    """{source path: (bytes, record)}"""
    data = members(out)
    return {f["path"]: (data[f"{s['key']}.{f['name']}"], f) for s in ls(out) for f in s["fields"] if f["path"]}


def shot(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def array(data):
    a = np.load(io.BytesIO(data))
    return a[..., 0] if a.shape[2] == 1 else a


PLAIN = ["--image", "*", "--no-detect", "--classes", "none"]


def veiled(channels=4, w=64, h=48):
    """A picture behind a ramp of opacity."""
    a = picture(w, h, 3, channels=channels - 1).reshape(h, w, channels - 1)
    ramp = np.broadcast_to(np.linspace(0, 255, w).astype(np.uint8)[None, :, None], (h, w, 1))
    return np.concatenate([a, ramp], 2)


def over(a, background):
    """a over the background, by the formula of compositing, not rounded."""
    colour, alpha = a[..., :-1].astype(float), a[..., -1:] / 255.0
    return colour * alpha + np.float64(background) * (1 - alpha)


def test_alpha_backgrounds():
    save("src/rgba.png", veiled())
    save("src/la.png", veiled(2))
    save("src/opaque.png", np.dstack([picture(64, 48, 4), np.full((48, 64), 255, np.uint8)]))
    for n, (value, rgb) in enumerate({"white": (255,) * 3, "black": (0,) * 3, "#1080f0": (16, 128, 240), "#ffffff": (255,) * 3}.items()):
        pack("src", "-o", f"o{n}", "--codec", "raw", "--alpha", value, *PLAIN)
        out = stored(f"o{n}")
        got = array(out["rgba.png"][0])
        assert got.shape == (48, 64, 3) and np.abs(got - over(veiled(), rgb)).max() <= 0.51, value
        assert "flattened" in out["rgba.png"][1]["notes"]
        got, gray = array(out["la.png"][0]), rgb[0] == rgb[1] == rgb[2]
        want = over(veiled(2) if gray else np.concatenate([veiled(2)[..., :1].repeat(3, 2), veiled(2)[..., 1:]], 2), rgb[:1] if gray else rgb)
        if got.ndim == 2 and not gray:
            luma = np.asarray(Image.new("RGB", (1, 1), rgb).convert("L"))[0, 0]
            want = over(veiled(2), (luma,))
        assert np.abs(got.reshape(want.shape) - want).max() <= 0.51, (value, got.shape)
        assert np.array_equal(array(out["opaque.png"][0]), picture(64, 48, 4)) and "alpha-dropped" in out["opaque.png"][1]["notes"]
    # before resizing: what is seen is resized, not what is hidden
    hidden = np.zeros((40, 40, 4), np.uint8)
    hidden[:, :20], hidden[:, 20:] = (200, 0, 0, 255), (0, 255, 0, 0)
    save("edge/a.png", hidden)
    pack("edge", "-o", "e", "--codec", "raw", "--alpha", "black", "--resize", "30", *PLAIN)
    want = np.asarray(Image.fromarray(np.rint(over(hidden, (0, 0, 0))).astype(np.uint8)).resize((30, 30), Image.LANCZOS)).astype(int)
    assert np.abs(array(stored("e")["a.png"][0]) - want).max() <= 1
    for bad in ("#12345", "#gg0000", "grey", "#1234567", ""):
        run("pack", "src", "-o", "bad", "--alpha", bad, code=2)


def test_alpha_keep_and_reject():
    save("src/rgba.png", veiled())
    save("src/opaque.png", np.dstack([picture(64, 48, 4), np.full((48, 64), 255, np.uint8)]))
    save("src/plain.png", picture(64, 48, 5))
    pack("src", "-o", "raw", "--codec", "raw", "--alpha", "keep", *PLAIN)
    assert np.array_equal(array(stored("raw")["rgba.png"][0]), veiled())
    pack("src", "-o", "png", "--codec", "png", "--alpha", "keep", "--resize", "32", *PLAIN)
    got = shot(stored("png")["rgba.png"][0]).astype(int)
    want = np.asarray(Image.fromarray(veiled()).resize((32, 24), Image.LANCZOS)).astype(int)  # Pillow multiplies with alpha, too
    seen = want[..., 3] > 60
    assert got.shape == want.shape and np.abs(got - want)[..., 3].max() <= 1 and np.abs(got - want)[seen].max() <= 4, np.abs(got - want)[seen].max()
    p = run("pack", "src", "-o", "no", "--codec", "jpeg", "--alpha", "keep", code=2)
    assert "alpha" in p.err
    for codec in ("raw", "png", "jpeg"):
        pack("src", "-o", f"r{codec}", "--codec", codec, "--alpha", "reject", *PLAIN, code=3)
        assert {k: v["class"] for k, v in rejects(f"r{codec}").items()} == {"rgba.png": "alpha"}
        assert set(stored(f"r{codec}")) == ({"plain.png", "opaque.png"})
    pack("src", "-o", "none", "--alpha", "reject", *PLAIN, code=3)  # without a codec and a size, too
    assert set(rejects("none")) == {"rgba.png"}


def test_a_colour_or_channels_flatten_where_alpha_could_stay():
    save("src/rgba.png", veiled())
    save("src/la.png", veiled(2))
    save("src/opaque.png", np.dstack([picture(64, 48, 4), np.full((48, 64), 255, np.uint8)]))
    for n, extra in enumerate((["--codec", "png"], ["--codec", "keep"], ["--resize", "64", "--lossless"], [])):
        p = pack("src", "-o", f"o{n}", *extra, "--alpha", "black", *PLAIN)
        out = stored(f"o{n}")
        assert np.abs(shot(out["rgba.png"][0]) - over(veiled(), (0, 0, 0))).max() <= 0.51, extra
        assert np.abs(shot(out["la.png"][0]) - over(veiled(2), (0,))[..., 0]).max() <= 0.51, extra
        assert np.array_equal(shot(out["opaque.png"][0]), picture(64, 48, 4)) and "flattened on #000000" in p.err
    for n, extra in enumerate((["--codec", "png"], [])):
        pack("src", "-o", f"c{n}", "--channels", "3", *extra, *PLAIN)
        out = stored(f"c{n}")
        assert all(shot(d).shape == (48, 64, 3) and f["channels"] == 3 for d, f in out.values())
        assert np.abs(shot(out["rgba.png"][0]) - over(veiled(), (255,) * 3)).max() <= 0.51
    run("pack", "src", "-o", "no", "--channels", "3", "--alpha", "keep", code=2)
    p = pack("src", "-o", "rej", "--codec", "jpeg", "--alpha", "reject", *PLAIN, code=3)
    assert "they are rejects (--alpha reject)" in p.err and "flattened on" not in p.err, p.err
    for bad in ("8:0.5,9", "8:1,9.5"):
        run("pack", "src", "-o", "bad", "--depth", bad, code=2)


def test_lossless_keeps_png():
    for i in range(4):
        save(f"src/{i}.png", picture(90, 60, i))
    pack("src", "-o", "lossy", "--resize", "45", *PLAIN)
    assert {f["format"] for _, f in stored("lossy").values()} == {"jpeg"}
    pack("src", "-o", "out", "--resize", "45", "--lossless", *PLAIN)
    for path, (data, f) in stored("out").items():
        want = np.asarray(Image.open(f"src/{path}").resize((45, 30), Image.LANCZOS)).astype(int)
        assert f["format"] == "png" and f["quality"] == 0 and np.abs(shot(data) - want).max() <= 1, path
    for codec in ("jpeg", "webp"):
        run("pack", "src", "-o", "bad", "--lossless", "--codec", codec, code=2)


def test_upscale_is_pillows_lanczos():
    for i, size in enumerate(((40, 30), (31, 47), (1, 1))):
        save(f"src/{i}.png", picture(*size, i))
    pack("src", "-o", "same", "--resize", "100", "--codec", "png", *PLAIN)
    pack("src", "-o", "large", "--resize", "100", "--codec", "png", "--upscale", *PLAIN)
    for path, (data, _) in stored("large").items():
        source, got = Image.open(f"src/{path}"), shot(data)
        assert max(got.shape[:2]) == 100 and np.array_equal(shot(stored("same")[path][0]), np.asarray(source))
        want = np.asarray(source.resize(got.shape[1::-1], Image.LANCZOS)).astype(int)
        middle = (want > 15) & (want < 240)  # at the ends Pillow cuts off overshoot between its passes
        assert np.abs(got - want)[middle].max(initial=0) <= 1 and np.abs(got - want).max() <= 4, path
    run("pack", "src", "-o", "bad", "--upscale", code=2)


def test_png_level():
    for i in range(3):
        save(f"src/{i}.png", picture(120, 90, i))
    size = {}
    for level in range(1, 10):
        pack("src", "-o", f"o{level}", "--codec", "png", "--resize", "100", "--png-level", str(level), *PLAIN)
        out = stored(f"o{level}")
        size[level] = sum(len(d) for d, _ in out.values())
        assert all(np.array_equal(shot(d), shot(stored("o1")[p][0])) for p, (d, _) in out.items()), level
    pack("src", "-o", "plain", "--codec", "png", "--resize", "100", *PLAIN)
    assert {p: d for p, (d, _) in stored("plain").items()} == {p: d for p, (d, _) in stored("o6").items()}, "6 is the default"
    assert size[1] > size[9] and size[6] <= size[1], size
    for bad in ("0", "10", "x", "-1", "6.5"):
        run("pack", "src", "-o", "bad", "--png-level", bad, code=2)


def tables(data):
    """The Huffman tables of a JPEG: {class and number: bytes}."""
    found, at = {}, 2
    while data[at + 1] != 0xda:
        n = int.from_bytes(data[at + 2:at + 4], "big")
        body = data[at + 4:at + 2 + n]
        while data[at + 1] == 0xc4 and body:
            k = 17 + sum(body[1:17])
            found[body[0]], body = body[1:k], body[k:]
        at += 2 + n
    return found


def test_no_optimise_writes_the_standard_tables():
    for i in range(3):
        save(f"src/{i}.png", picture(120, 90, i))
    pack("src", "-o", "own", "--codec", "jpeg", *PLAIN)
    for option in ("--no-optimise", "--no-optimize"):
        out = option.strip("-")
        pack("src", "-o", out, "--codec", "jpeg", option, *PLAIN)
        for path, (data, _) in stored(out).items():
            own = stored("own")[path][0]
            assert tables(data) == tables(jpeg(picture(16, 16))), "Pillow writes those of Annex K unless it is asked to optimise"
            assert tables(own) != tables(data) and len(own) < len(data) and np.array_equal(shot(own), shot(data)), path


def test_reencode_all():
    small = jpeg(picture(90, 60, 1), quality=98, subsampling=0)
    write("src/a.jpg", small)
    pack("src", "-o", "copied", "--resize", "100", *PLAIN)
    assert stored("copied")["a.jpg"][1]["notes"] == ["copied", "stripped"] or stored("copied")["a.jpg"][0] == small
    pack("src", "-o", "all", "--resize", "100", "--reencode", "all", "--quality", "50", *PLAIN)
    data, f = stored("all")["a.jpg"]
    im = Image.open(io.BytesIO(data))
    fifty = Image.open(io.BytesIO(jpeg(picture(16, 16), quality=50))).quantization
    assert f["quality"] == 50 and im.quantization == fifty and im.layer[0][1:3] == (2, 2) and len(data) < len(small)
    assert psnr(im.convert("RGB"), Image.open(io.BytesIO(small)).convert("RGB")) > 25
    write("low/a.jpg", jpeg(picture(90, 60, 1), quality=20))  # where that grows, too, and without a size or codec
    for out, extra in (("low.out", ["--resize", "100"]), ("low.keep", [])):
        pack("low", "-o", out, *extra, "--reencode", "all", "--quality", "95", *PLAIN)
        data, f = stored(out)["a.jpg"]
        wanted = Image.open(io.BytesIO(jpeg(picture(16, 16), quality=95))).quantization
        assert {"not-smaller", "reencoded"} <= set(f["notes"]) and "copied" not in f["notes"] and f["quality"] == 95
        assert len(data) > os.path.getsize("low/a.jpg") and Image.open(io.BytesIO(data)).quantization == wanted
    save("png/a.png", picture(90, 60, 1), optimize=True)
    pack("png", "-o", "png.out", "--reencode", "all", *PLAIN)
    data, f = stored("png.out")["a.png"]
    assert f["format"] == "png" and "reencoded" in f["notes"] and np.array_equal(shot(data), picture(90, 60, 1))


def test_lossless_webp_stays_lossless():
    if os.environ.get("SLIMSET_NO_VIPS"):
        print("skip test_lossless_webp_stays_lossless: this build has no libvips")
        return
    a = picture(90, 60, 7)
    gray = np.asarray(Image.fromarray(a).convert("L"))
    save("src/less.webp", a, lossless=True)
    save("src/lossy.webp", a, quality=80)
    frames = [Image.fromarray(picture(90, 60, i)) for i in (7, 8)]
    frames[0].save("src/moves.webp", save_all=True, append_images=frames[1:], lossless=True)
    for n, (extra, want) in enumerate(((["--channels", "1"], gray), (["--resize", "45", "--codec", "keep"], None), (["--reencode", "all"], a))):
        p = pack("src", "-o", f"o{n}", *extra, *PLAIN)
        out = stored(f"o{n}")
        for name in ("less.webp", "moves.webp"):
            data, f = out[name]
            assert data[12:16] == b"VP8L" and f["quality"] in (None, 0) and "reencoded" in f["notes"], (extra, name, f)
            if want is not None:
                assert np.array_equal(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), np.dstack([want] * 3) if want.ndim == 2 else want)
        assert out["lossy.webp"][1]["quality"] == 90 and b"VP8L" not in out["lossy.webp"][0][:32]
        assert "(lossy)" in p.err, p.err
    os.remove("src/lossy.webp")
    assert "lossy" not in pack("src", "-o", "one", "--channels", "1", *PLAIN).err
    pack("src", "-o", "asked", "--codec", "webp", "--channels", "1", *PLAIN)  # asked for with a quality
    assert stored("asked")["less.webp"][1]["quality"] == 90


def test_keep_metadata():
    exif = Image.Exif()
    exif[0x010e] = "PRIVATE-MARK"
    a = picture(60, 40, 2)
    save("src/a.jpg", a, exif=exif, quality=90)
    save("src/b.png", a, exif=exif)
    save("src/c.webp", a, exif=exif, lossless=True)
    for path, codec in (("a.jpg", "jpeg"), ("b.png", "png"), ("c.webp", "webp")):
        source = open(f"src/{path}", "rb").read()
        assert b"PRIVATE-MARK" in source
        for n, (option, size) in enumerate((([], "100"), (["--keep-metadata"], "100"), (["--keep-metadata"], "30"))):
            pack(f"src/{path}", "-o", f"{path}{n}", "--codec", codec, "--resize", size, *option, *PLAIN)
            (data, _), = stored(f"{path}{n}").values()
            if n == 1:
                assert data == source, path
            else:  # not asked for; or encoded again, which carries nothing
                assert b"PRIVATE-MARK" not in data and (n == 2 or np.array_equal(shot(data), shot(source))), (path, n)


def test_channels_keep():
    save("src/gray.png", picture(50, 40, 1, channels=1))
    save("src/rgb.png", picture(50, 40, 2))
    for name, extra in (("default", []), ("keep", ["--channels", "keep"])):
        pack("src", "-o", name, "--codec", "raw", *extra, *PLAIN)
        out = {p: array(d) for p, (d, _) in stored(name).items()}
        assert np.array_equal(out["gray.png"], picture(50, 40, 1, channels=1)) and np.array_equal(out["rgb.png"], picture(50, 40, 2))
    pack("src", "-o", "one", "--codec", "raw", "--channels", "1", *PLAIN)
    out = {p: array(d) for p, (d, _) in stored("one").items()}
    assert np.array_equal(out["gray.png"], picture(50, 40, 1, channels=1))
    assert np.array_equal(out["rgb.png"], np.asarray(Image.fromarray(picture(50, 40, 2)).convert("L")))
    pack("src", "-o", "three", "--codec", "raw", "--channels", "3", *PLAIN)
    out = {p: array(d) for p, (d, _) in stored("three").items()}
    assert np.array_equal(out["gray.png"], np.dstack([picture(50, 40, 1, channels=1)] * 3)) and np.array_equal(out["rgb.png"], picture(50, 40, 2))
    for bad in ("2", "4", "0", "rgb"):
        run("pack", "src", "-o", "bad", "--channels", bad, code=2)


def test_16_bits_into_8_only_where_they_fill_the_range():
    rng = np.random.default_rng(1)
    def field(name, make):
        for i in range(20):
            save(f"{name}/{i:02}.png", make(i).astype(np.uint16))
    twelve = lambda i: np.add.outer(np.arange(64) * 40, np.arange(80) * 12) + rng.integers(0, 60, (64, 80))
    def hot(i):
        a = twelve(i)
        a[5, 7] = 65535
        return a
    def written_on(i):  # 2 % burned-in white
        a = twelve(i)
        a[:10, :10] = 65535
        return a
    field("hot", hot)
    field("ink", written_on)
    field("full", lambda i: np.add.outer(np.arange(64) * 600, np.arange(80) * 340) + rng.integers(0, 200, (64, 80)))
    field("drawn", lambda i: rng.integers(0, 3, (64, 80)) * 30000)
    for name in ("hot", "ink"):
        for codec in ("jpeg",) if os.environ.get("SLIMSET_NO_VIPS") else ("jpeg", "webp"):
            p = pack(name, "-o", f"{name}.{codec}", "--codec", codec, *PLAIN, code=3)
            assert {r["class"] for r in rejects(f"{name}.{codec}").values()} == {"depth"} and len(rejects(f"{name}.{codec}")) == 20
            assert "--depth 8:LO,HI" in p.err and "16 of 16" in p.err, p.err
    for name in ("full", "drawn"):
        p = pack(name, "-o", f"{name}.out", "--codec", "jpeg", "--quality", "100", *PLAIN)
        assert "dropping their low byte (lossy)" in p.err, p.err
        for path, (data, f) in stored(f"{name}.out").items():
            want = np.asarray(Image.open(f"{name}/{path}")).astype(int) >> 8
            assert "scaled-8bit" in f["notes"] and np.abs(shot(data).astype(int) - want).max() <= 4, path


def test_max_pixels_is_a_limit_that_may_be_reached():
    for ext in ("png", "jpg", "bmp", "ppm"):
        save(f"src/{ext}/at.{ext}", picture(50, 40, 1))
        save(f"src/{ext}/over.{ext}", picture(29, 69, 1))
    pack("src", "-o", "out", "--max-pixels", "2000", "--resize", "20", *PLAIN, code=3)
    lost = rejects("out")
    assert {k: v["class"] for k, v in lost.items()} == {f"{e}/over.{e}": "too-many-pixels" for e in ("png", "jpg", "bmp", "ppm")}, lost
    assert all("2000" in v["reason"] or "2001" in v["reason"] for v in lost.values()), lost
    pack("src", "-o", "all", "--max-pixels", "2001", "--resize", "20", *PLAIN, code=0)
    for bad in ("0", "x", "-5", "1.5"):
        run("pack", "src", "-o", "bad", "--max-pixels", bad, code=2)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
