# SPDX-License-Identifier: Apache-2.0
"""Which file is what: --image, --mask, --depth-map, --array, --copy, --skip, --no-detect; and settings for some files only,
from --config. Pillow judges sizes, values and qualities. Runs with SLIMSET_IN_PROCESS as well."""
import numpy as np
from PIL import Image

from _frame import files, io, jpeg, ls, main, members, pack, picture, rejects, run, save, write


def labels(w, h, seed, n=12):
    r = np.random.default_rng(1000 + seed)
    return np.kron(r.integers(0, n, (h // 8 + 1, w // 8 + 1)), np.ones((8, 8))).astype(np.uint8)[:h, :w]


def fields(out):
    return {s["key"] + "." + f["name"]: f for s in ls(out) for f in s["fields"] if f["name"] != "cls"}


def opened(data):
    return Image.open(io.BytesIO(data))


def nearest(path, size):
    return np.asarray(Image.open(path).resize(size, Image.NEAREST))


def quality(data):
    """The quality that libjpeg's scaling of the first table tells."""
    return opened(data).quantization[0][0]


def make(n=3):
    for i in range(n):
        save(f"src/a/{i}.png", picture(96, 64, i))
        save(f"src/b/{i}.png", labels(96, 64, i))


def test_roles():
    make()
    # whatever they look like
    p = pack("src", "-o", "mask", "--resize", "48", "--mask", "a/*", "--image", "b/*")
    f, m = fields("mask"), members("mask")
    assert f["a/0.png"]["role"] == "mask" and f["b/0.png"]["role"] == "image", f.keys()
    assert (np.asarray(opened(m["a/0.png"])) == nearest("src/a/0.png", (48, 32))).all()
    assert ".png: 3 files, mask (given by a rule)" in p.err and ".png: 3 files, image (given by a rule)" in p.err, p.err
    pack("src", "-o", "copy", "--resize", "48", "--copy", "b/*")
    with open("src/b/1.png", "rb") as f:
        assert "b/1.png" not in members("copy")  # a copy alone is no sample
    pack("src", "-o", "tree", "--resize", "48", "--copy", "b/*", "--to", "tree")
    with open("src/b/1.png", "rb") as f, open("tree/b/1.png", "rb") as g:
        assert f.read() == g.read()
    pack("src", "-o", "skip", "--skip", "b/*")
    assert set(fields("skip")) == {f"a/{i}.png" for i in range(3)}
    assert {(r["path"], r["reason"]) for r in ls("skip", "--left-out")} == {(f"b/{i}.png", "skipped by --skip") for i in range(3)}
    # the last rule that matches counts; without "/" it is the name that is compared
    pack("src", "-o", "last", "--resize", "48", "--mask", "*.png", "--image", "a/*", "--mask", "1.png")
    f = fields("last")
    assert [f[k]["role"] for k in ("a/0.jpg", "a/1.png", "b/0.png", "b/1.png")] == ["image", "mask", "mask", "mask"], f.keys()


def test_depth_map():
    """Nearest neighbour on 16 bits, exact values."""
    for i in range(3):
        r = np.random.default_rng(i)
        a = r.integers(1, 65536, (64, 96)).astype(np.uint16)
        save(f"src/{i}.png", a)
    pack("src", "-o", "out", "--resize", "48", "--depth-map", "*.png")
    m = members("out")
    for i in range(3):
        got = np.asarray(opened(m[f"{i}.png"]))
        want = np.asarray(Image.open(f"src/{i}.png"))[1::2, 1::2]  # floor((i + 0.5) * 2)
        assert got.shape == (32, 48) and (got == want).all()
    assert {f["role"] for f in fields("out").values()} == {"depth"}


def test_array():
    for i in range(2):
        np.save("x.npy", np.arange(12, dtype="<f4") + i)
        with open("x.npy", "rb") as f:
            write(f"src/{i}.feat", f.read())
        save(f"src/{i}.png", picture(32, 24, i))
    pack("src", "-o", "out", "--array", "*.feat")
    assert {k.split(".", 1)[0] for k, f in fields("out").items() if f["role"] == "array"} == {"0", "1"}, fields("out")


def test_no_detect():
    """Detection says what it found and why, and can be switched off."""
    for i in range(4):
        save(f"src/{i}.png", labels(96, 64, i))
    p = pack("src", "-o", "out", "--resize", "48")
    assert ".png: 4 files, mask (every probed file has one channel of at most 64 values) -> PNG" in p.err, p.err
    assert (np.asarray(opened(members("out")["0.png"])) == nearest("src/0.png", (48, 32))).all()
    p = pack("src", "-o", "off", "--resize", "48", "--no-detect")
    assert ".png: 4 files, image (by its extension)" in p.err, p.err
    assert {f["role"] for f in fields("off").values()} == {"image"}
    for i in range(4):
        save(f"named/masks/{i}.png", labels(96, 64, i, 200))
        save(f"named/img/{i}.png", picture(96, 64, i))
    p = pack("named", "-o", "n1", "--resize", "48")
    assert "mask (its name says so and the content fits)" in p.err, p.err
    assert fields("n1")["masks/0.png"]["role"] == "mask"
    p = pack("named", "-o", "n2", "--resize", "48", "--no-detect")
    assert {f["role"] for f in fields("n2").values()} == {"image"}


CONFIG = """
# sizes and qualities of their own
resize = long:48
quality = 70

[field image]
pattern = a/{}.png
quality = 95

[field mask]
pattern = "b/{}.png"
png-level = 9

[rule "thumb/*"]
resize = long:16
quality = 40
"""


def test_settings():
    make()
    for i in range(3):
        write(f"src/thumb/{i}.jpg", jpeg(picture(96, 64, i), quality=97))
        write(f"src/other/{i}.jpg", jpeg(picture(96, 64, i), quality=97))
    write("s.conf", CONFIG.encode())
    p = pack("src", "-o", "out", "--config", "s.conf")
    f, m = fields("out"), members("out")
    size = {k: (x["width"], x["height"], x["quality"]) for k, x in f.items()}
    assert size["0.jpg"] == (48, 32, 95) and size["other/0.jpg"] == (48, 32, 70) and size["thumb/0.jpg"] == (16, 11, 40), size
    # libjpeg: the first entry of the luma table is 16 scaled by the quality
    assert [quality(m[k]) for k in ("0.jpg", "other/0.jpg", "thumb/0.jpg")] == [2, 10, 20]
    assert f["0.mask.png"]["role"] == "mask"
    for i in range(3):
        assert (np.asarray(opened(m[f"{i}.mask.png"])) == nearest(f"src/b/{i}.png", (48, 32))).all()
    assert "JPEG quality 95 (lossy), resize long:48" in p.err and "JPEG quality 40 (lossy), resize long:16" in p.err, p.err
    assert "-> PNG, in the size of its image" in p.err, p.err
    before = files("out")
    p = pack("src", "-o", "out", "--config", "s.conf")
    assert "nothing had changed" in p.out and files("out") == before
    # the command line has the last word over the top of the file, not over what a section says
    pack("src", "-o", "cl", "--config", "s.conf", "--quality", "60", "--resize", "24")
    size = {k: (x["width"], x["height"], x["quality"]) for k, x in fields("cl").items()}
    assert size["0.jpg"] == (24, 16, 95) and size["other/0.jpg"] == (24, 16, 60) and size["thumb/0.jpg"] == (16, 11, 40), size
    # other settings are another recipe, and named
    write("s.conf", CONFIG.replace("40", "41").encode())
    p = pack("src", "-o", "out", "--config", "s.conf", code=2)
    assert "settings3.quality: 40 -> 41" in p.err, p.err
    p = pack("src", "-o", "out", "--resize", "48", "--quality", "70", code=2)
    assert "field0: settings1 image=a/{}.png -> none" in p.err, p.err
    pack("src", "-o", "out", "--config", "s.conf", "--force")
    assert quality(members("out")["thumb/0.jpg"]) == 19 and fields("out")["thumb/0.jpg"]["quality"] == 41


def test_masks_take_the_size_of_their_image():
    """Where the image's settings resize, its mask follows, joined or beside it; a resize of its own counts more."""
    make()
    for i in range(3):
        save(f"src/c/{i}.png", picture(96, 64, i))
        save(f"src/c/{i}.mask.png", labels(96, 64, i))
    top = "[field image]\npattern = a/{}.png\nresize = crop:40x40\n[field mask]\npattern = b/{}.png\n[rule 'c/?.png']\nresize = short:16\n"
    write("s.conf", top.encode())
    pack("src", "-o", "out", "--config", "s.conf")
    f, m = fields("out"), members("out")
    for i in range(3):
        assert (f[f"{i}.jpg"]["width"], f[f"{i}.jpg"]["height"]) == (40, 40)
        want = Image.open(f"src/b/{i}.png").resize((40, 40), Image.NEAREST, box=(16, 0, 80, 64))
        assert (np.asarray(opened(m[f"{i}.mask.png"])) == np.asarray(want)).all(), i
        assert opened(m[f"c/{i}.jpg"]).size == (24, 16)
        assert (np.asarray(opened(m[f"c/{i}.mask.png"])) == nearest(f"src/c/{i}.mask.png", (24, 16))).all(), i
    write("s.conf", top.replace("b/{}.png\n", "b/{}.png\nresize = exact:16x16\n").encode())
    pack("src", "-o", "own", "--config", "s.conf")
    m = members("own")
    assert opened(m["1.jpg"]).size == (40, 40)
    assert (np.asarray(opened(m["1.mask.png"])) == nearest("src/b/1.png", (16, 16))).all()


def test_settings_by_glob():
    """Settings without a role leave detection alone; the last rule that has some counts."""
    make()
    write("s.conf", b"codec = png\nmask = b/*\n[rule \"a/*\"]\nchannels = 1\n[rule \"a/1.png\"]\nchannels = keep\n[rule \"2.png\"]\nrole = skip\n")
    pack("src", "-o", "out", "--config", "s.conf")
    f = fields("out")
    assert set(f) == {"a/0.png", "a/1.png", "b/0.png", "b/1.png"}, f.keys()
    assert (f["a/0.png"]["channels"], f["a/1.png"]["channels"]) == (1, 3)
    assert {f[k]["role"] for k in f} == {"image", "mask"} and f["b/1.png"]["role"] == "mask"
    m = members("out")
    want = np.asarray(Image.open("src/a/0.png").convert("L")).astype(int)
    assert np.abs(np.asarray(opened(m["a/0.png"])).astype(int) - want).max() <= 1
    # a flag that the top sets and a section takes back
    write("s.conf", b"resize = 48\nlossless = yes\n[rule \"a/0.png\"]\nlossless = no\n")
    pack("src", "-o", "flag", "--config", "s.conf", "--mask", "b/*")
    assert {"a/0.jpg", "a/1.png"} <= set(fields("flag")), fields("flag").keys()


def test_slips_are_told():
    """A key that stands twice, and a GLOB that no file has."""
    make()
    for text, said in ((b"quality = 80\nresize = 48\nquality = 90\n", "s.conf:3: quality stands in line 1 already"),
                       (b"upscale = yes\nupscale = no\n", "s.conf:2: upscale stands in line 1 already"),
                       (b"[rule 'a/*']\nrole = image\nrole = mask\n", "s.conf:3: role stands in line 2 already"),
                       (b"[rule 'a/*']\nchannels = 1\n[rule 'b/*']\nchannels = 1\nchannels = 3\n", "s.conf:5: channels stands in line 4 already")):
        write("s.conf", text)
        p = pack("src", "-o", "twice", "--config", "s.conf", code=2)
        assert said in p.err, p.err
    write("s.conf", b"quality = 80\nmask = b/*\nmask = c/*\n[rule 'a/*']\nquality = 70\n[rule 'val/*.jpg']\nquality = 60\n")
    p = pack("src", "-o", "out", "--config", "s.conf", "--skip", "*.gone")
    warned = [line for line in p.err.splitlines() if "matches none" in line]
    assert len(warned) == 3 and all(any(f"'{g}'" in w for w in warned) for g in ("c/*", "val/*.jpg", "*.gone")), p.err
    p = pack("src", "-o", "depth", "--depth", "8:0.5,9", code=2)
    assert "whole numbers" in p.err, p.err


def test_plan_says_it():
    make()
    write("s.conf", CONFIG.encode())
    p = run("plan", "src", "--config", "s.conf", code=0)
    assert ".png: 3 files, image (given by a rule) -> JPEG quality 95 (lossy), resize long:48" in p.err, p.err
    assert ".mask.png: 3 files, mask (given by a rule) -> PNG, in the size of its image" in p.err, p.err


main([f for n, f in sorted(globals().items()) if n.startswith("test_")])
