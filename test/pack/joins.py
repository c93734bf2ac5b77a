# SPDX-License-Identifier: Apache-2.0
"""--field and --group-by: files of several folders, or all of one, become a sample. Pillow's NEAREST judges the masks; zipfile and tarfile make the archives.
Runs with SLIMSET_IN_PROCESS as well."""
import os
import shlex
import signal
import subprocess
import tarfile
import time
import zipfile

import numpy as np
from PIL import Image

from _frame import IN_PROCESS, SLIMSET, files, io, jpeg, ls, main, members, pack, picture, rejects, run, save, write


def labels(w, h, seed, n=12):
    """A label map: blocks of values below n."""
    r = np.random.default_rng(1000 + seed)
    return np.kron(r.integers(0, n, (h // 8 + 1, w // 8 + 1)), np.ones((8, 8))).astype(np.uint8)[:h, :w]


def pairs(root, n=6, folders=("val", "valannot"), suffix="", w=96, h=64, ext="png", seed=0):
    for i in range(n):
        if ext == "png":
            save(f"{root}/{folders[0]}/{i:04d}.png", picture(w, h, seed + i))
        else:
            write(f"{root}/{folders[0]}/{i:04d}.{ext}", jpeg(picture(w, h, seed + i)))
        save(f"{root}/{folders[1]}/{i:04d}{suffix}.png", labels(w, h, seed + i))


FIELDS = ["--field", "image=val/{}.png", "--field", "mask=valannot/{}.png"]


def keys(out):
    return {s["key"]: [f["name"] for f in s["fields"]] for s in ls(out)}


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def check_masks(m, root, n=6, size=(48, 32)):
    for i in range(n):
        image, mask = Image.open(io.BytesIO(m[f"{i:04d}.jpg"])), Image.open(io.BytesIO(m[f"{i:04d}.mask.png"]))
        want = Image.open(f"{root}/valannot/{i:04d}.png").resize(image.size, Image.NEAREST)
        assert image.size == size and mask.mode == "L", (image.size, mask.mode)
        assert (np.asarray(mask) == np.asarray(want)).all(), i


def test_a_name_alone_joins_to_samples_as_they_are():
    for name, folder, ext in (("caption", "txt", "txt"), ("left", "l", "png"), ("label", "gt", "png")):
        for i in range(5):
            write(f"{name}.src/img/{i}.jpg", jpeg(picture(40, 30, i)))
            if ext == "txt":
                write(f"{name}.src/{folder}/{i}.txt", b"a caption %d" % i)
            else:
                save(f"{name}.src/{folder}/{i}.png", labels(40, 30, i))
        p = pack(f"{name}.src", "-o", name, "--field", f"{name}={folder}/{{}}.{ext}")
        assert f"--field {name}: all 5" in p.err, p.err
        assert all(f"{name}.{ext}" in fields for fields in keys(name).values()) and len(keys(name)) == 5, keys(name)
    m = members("caption")
    assert sorted(v for k, v in m.items() if k.endswith("caption.txt")) == [b"a caption %d" % i for i in range(5)], list(m)


def test_two_folders():
    pairs("src")
    p = pack("src", "-o", "out", *FIELDS, "--resize", "48")
    assert "--field mask: all 6 samples have one" in p.err, p.err
    assert keys("out") == {f"{i:04d}": ["jpg", "mask.png"] for i in range(6)}, keys("out")
    assert {s["split"] for s in ls("out")} == {"val"} and {s["class"] for s in ls("out")} == {None}
    roles = [[f["role"] for f in s["fields"]] for s in ls("out")]
    assert roles == [["image", "mask"]] * 6, roles
    assert ls("out")[0]["fields"][1]["path"].startswith("valannot/")
    check_masks(members("out"), "src")
    run("verify", "out", "--decode", code=0)


def test_two_archives():
    """Images in one archive, masks in another: the warning has the patterns that join them."""
    pairs("src")
    for name in ("val", "valannot"):
        with zipfile.ZipFile(f"{name}.zip", "w") as z:
            for n in sorted(os.listdir(f"src/{name}")):
                z.write(f"src/{name}/{n}", f"{name}/{n}")
    sources = "val.zip", "valannot.zip"
    for i, fields in enumerate((FIELDS, ("--field", "mask=valannot/{}.png"))):
        p = pack(*sources, "-o", f"apart{i}", *fields, "--resize", "48")
        said = [line for line in p.err.splitlines() if "are of two sources" in line]
        assert len(said) == 1, p.err
        assert not any(f["role"] == "mask" for s in ls(f"apart{i}") for f in s["fields"])
        better = shlex.split(said[0].split("join them:")[1])
        assert len(better) == (4 if i == 0 else 2), better
        p = pack(*sources, "-o", f"together{i}", *better, "--resize", "48")
        assert "--field mask: all 6 samples have one" in p.err and "two sources" not in p.err, p.err
        m = {k.rsplit("/", 1)[-1]: v for k, v in members(f"together{i}").items()}
        check_masks(m, "src")
    p = pack("valannot.zip", "-o", "none", "--field", "mask=valannot/{}.png", code=2)
    assert "all 0 samples" not in p.err, p.err


def test_a_role_is_a_role_in_upper_case():
    pairs("src")
    pack("src", "-o", "out", "--field", "Image=val/{}.png", "--field", "MASK=valannot/{}.png", "--resize", "48")
    assert {(f["name"], f["role"]) for s in ls("out") for f in s["fields"]} == {("jpg", "image"), ("mask.png", "mask")}
    check_masks(members("out"), "src")
    write("s.conf", b"resize = 48\n[field IMAGE]\npattern = val/{}.png\n[field mask]\nresize = exact:12x8\n")
    pack("src", "-o", "conf", "--config", "s.conf", "--field", "Mask=valannot/{}.png")
    assert opened(members("conf")["0000.mask.png"]).shape == (8, 12)
    write("s.conf", b"[field Mask]\npattern = a/{}.png\n[field mask]\npattern = b/{}.png\n")
    p = pack("src", "-o", "twice", "--config", "s.conf", code=2)
    assert "stands in line 1 already" in p.err, p.err


def test_archives_and_lists_give_the_same():
    pairs("src")
    pack("src", "-o", "out", *FIELDS, "--resize", "48")
    want = members("out")
    with zipfile.ZipFile("s.zip", "w") as z, tarfile.open("s.tar.gz", "w:gz") as t:
        for d in ("valannot", "val"):
            for n in sorted(os.listdir(f"src/{d}")):
                z.write(f"src/{d}/{n}", f"{d}/{n}", zipfile.ZIP_DEFLATED if n < "0003" else zipfile.ZIP_STORED)
                t.add(f"src/{d}/{n}", f"{d}/{n}")
    for source in ("s.zip", "s.tar.gz"):
        pack(source, "-o", f"out-{source}", *FIELDS, "--resize", "48")
        assert members(f"out-{source}") == want, source
    names = "\n".join(f"{os.getcwd()}/src/{d}/{n}" for d in ("val", "valannot") for n in os.listdir(f"src/{d}"))
    here = [f.replace("=val", f"={os.getcwd()}/src/val") for f in FIELDS]
    pack("--files-from", "-", "-o", "out-list", *here, "--resize", "48", stdin=names.encode())
    assert members("out-list") == want


def test_several_sources():
    """Patterns take the sources' names, or stand below each."""
    pairs("src")
    for d, archive in (("val", "images.zip"), ("valannot", "masks.zip")):
        with zipfile.ZipFile(archive, "w") as z:
            for n in sorted(os.listdir(f"src/{d}")):
                z.write(f"src/{d}/{n}", n)
    pack("src", "-o", "want", *FIELDS, "--resize", "48")
    pack("images.zip", "masks.zip", "-o", "out", "--field", "image=images/{}.png", "--field", "mask=masks/{}.png", "--resize", "48")
    assert members("out") == members("want")
    pairs("a", n=2)
    pairs("b", n=2, seed=50)
    pack("a", "b", "-o", "two", *FIELDS, "--resize", "48")
    assert keys("two") == {f"{s}/{i:04d}": ["jpg", "mask.png"] for s in "ab" for i in range(2)}, keys("two")
    m = members("two")
    for s in "ab":
        want = Image.open(f"{s}/valannot/0001.png").resize((48, 32), Image.NEAREST)
        assert (opened(m[f"{s}/0001.mask.png"]) == np.asarray(want)).all()


def test_masks_join_ordinary_samples():
    """Kaggle's Carvana: one --field, and the images are found as ever."""
    pairs("src", folders=("train", "train_masks"), suffix="_mask", ext="jpg")
    for i in range(6):
        im = Image.open(f"src/train_masks/{i:04d}_mask.png")
        im.save(f"src/train_masks/{i:04d}_mask.gif")
        os.remove(f"src/train_masks/{i:04d}_mask.png")
    write("src/train/0001.txt", b"a caption")
    write("src/test/9999.jpg", jpeg(picture(96, 64, 7)))
    p = pack("src", "-o", "out", "--field", "mask=train_masks/{}_mask.gif", "--resize", "48")
    assert "1 of 7 samples have no mask, such as that of test/9999.jpg; they are packed without" in p.err, p.err
    got = keys("out")
    want = {f"train/{i:04d}": ["jpg", "mask.png"] for i in range(6)}
    want["train/0001"] = ["jpg", "txt", "mask.png"]
    want["test/9999"] = ["jpg"]
    assert got == want, got
    m = members("out")
    for i in range(6):
        want = np.asarray(Image.fromarray(labels(96, 64, i)).resize((48, 32), Image.NEAREST))
        mask = Image.open(io.BytesIO(m[f"train/{i:04d}.mask.png"]))
        assert mask.size == (48, 32) and (np.asarray(mask.convert("L")) == want).all() or mask.mode == "P", mask.mode
        if mask.mode == "P":
            assert (np.asarray(mask) == np.asarray(Image.open(f"src/train_masks/{i:04d}_mask.gif").resize((48, 32), Image.NEAREST))).all()


def test_companions_stay():
    """What the ordinary rule puts beside the image goes with it."""
    pairs("src", n=2)
    write("src/val/0000.txt", b"caption")
    pack("src", "-o", "out", *FIELDS)
    assert keys("out") == {"0000": ["png", "txt", "mask.png"], "0001": ["png", "mask.png"]}, keys("out")
    assert members("out")["0000.txt"] == b"caption"
    with open("src/val/0001.png", "rb") as f:
        assert members("out")["0001.png"] == f.read()  # no --resize: bytes are kept


def test_splits_of_one_pattern():
    """The same stems in each split: * keeps them apart."""
    for k, s in enumerate(("train", "val")):
        pairs("src", n=3, folders=(s, s + "annot"), seed=10 * k)
    pack("src", "-o", "out", "--field", "image=*/{}.png", "--field", "mask=*annot/{}.png", "--resize", "48")
    assert keys("out") == {f"{s}/{i:04d}": ["jpg", "mask.png"] for s in ("train", "val") for i in range(3)}, keys("out")
    assert {(s["key"].split("/")[0], s["split"]) for s in ls("out")} == {("train", "train"), ("val", "val")}
    m = members("out")
    want = Image.open("src/valannot/0002.png").resize((48, 32), Image.NEAREST)
    assert (opened(m["val/0002.mask.png"]) == np.asarray(want)).all()
    # without *: the second file of a stem is a reject, not a sample with another's mask
    p = pack("src", "-o", "out2", "--field", "image=train/{}.png", "--field", "image=val/{}.png", "--field", "mask=trainannot/{}.png",
             "--resize", "48", code=3)
    assert {k: r["class"] for k, r in rejects("out2").items()} == {f"val/{i:04d}.png": "duplicate" for i in range(3)}, rejects("out2")


def test_missing_and_lost():
    pairs("src")
    os.remove("src/valannot/0002.png")
    os.remove("src/val/0004.png")
    save("src/more/0001.png", labels(96, 64, 1))
    args = [*FIELDS, "--field", "mask=more/{}.png", "--resize", "48"]
    p = pack("src", "-o", "out", *args, code=3)
    assert "1 of 5 samples have no mask, such as that of val/0002.png; they are packed without" in p.err, p.err
    assert "1 files of --field are left out, such as valannot/0004.png: no sample has its stem (--field)" in p.err, p.err
    assert keys("out")["0002"] == ["jpg"] and "0004" not in keys("out")
    assert {(r["path"], r["reason"]) for r in ls("out", "--left-out")} == {("valannot/0004.png", "no sample has its stem (--field)")}
    # two masks of 0001: the one whose path comes first stays
    assert {k: r["class"] for k, r in rejects("out").items()} == {"valannot/0001.png": "duplicate"}, rejects("out")
    os.remove("src/more/0001.png")
    p = pack("src", "-o", "strict", *FIELDS, "--resize", "48", "--strict", code=1)
    assert "1 of 5 samples have no mask, such as that of val/0002.png (--strict)" in p.err, p.err


def test_roles_and_rules():
    """A name gives the role unless a rule says otherwise; other names are told by their content."""
    pairs("src", n=4)
    for i in range(4):
        save(f"src/right/{i:04d}.png", picture(96, 64, 100 + i))
        write(f"src/txt/{i:04d}.txt", b"%d" % i)
    p = pack("src", "-o", "out", *FIELDS, "--field", "right=right/{}.png", "--field", "label=txt/{}.txt", "--resize", "48")
    assert keys("out")["0003"] == ["jpg", "label.txt", "mask.png", "right.jpg"], keys("out")
    assert ".label.txt: 4 files, copy" in p.err, p.err
    assert {f["role"] for s in ls("out") for f in s["fields"] if f["name"] == "right.jpg"} == {"image"}
    assert members("out")["0003.label.txt"] == b"3"
    pack("src", "-o", "ruled", *FIELDS, "--copy", "valannot/*", "--resize", "48")
    with open("src/valannot/0001.png", "rb") as f:
        assert members("ruled")["0001.mask.png"] == f.read()


def test_tree():
    pairs("src", n=2)
    pack("src", "-o", "out", *FIELDS, "--resize", "48", "--to", "tree")
    assert sorted(files("out")) == ["0000.jpg", "0000.mask.png", "0001.jpg", "0001.mask.png", "slimset.index"], sorted(files("out"))
    run("verify", "out", "--decode", code=0)


def test_other_fields_are_another_recipe():
    pairs("src")
    pack("src", "-o", "out", *FIELDS, "--resize", "48")
    p = pack("src", "-o", "out", *FIELDS[:2], "--resize", "48", code=2)
    assert "field1: mask=valannot/{}.png -> none" in p.err, p.err
    p = pack("src", "-o", "out", *FIELDS[:2], "--field", "gt=valannot/{}.png", "--resize", "48", code=2)
    assert "field1: mask=valannot/{}.png -> gt=valannot/{}.png" in p.err, p.err


def test_update():
    """A mask that changes makes its own shard anew, and nothing else; so does one that comes or goes."""
    pairs("src", n=12)
    args = ["-o", "out", *FIELDS, "--resize", "48", "--shards", "4"]
    pack("src", *args)
    before = files("out")
    p = pack("src", *args)
    assert "nothing had changed" in p.out and files("out") == before
    save("src/valannot/0005.png", labels(96, 64, 77))
    pack("src", *args)
    after = files("out")
    changed = {n for n in after if after[n] != before[n]}
    assert len(changed) == 2 and "slimset.index" in changed, changed
    want = Image.open("src/valannot/0005.png").resize((48, 32), Image.NEAREST)
    assert (opened(members("out")["0005.mask.png"]) == np.asarray(want)).all()
    os.remove("src/valannot/0005.png")
    pack("src", *args)
    assert keys("out")["0005"] == ["jpg"] and len({n for n in files("out") if files("out")[n] != after[n]}) == 2


def test_resume():
    pairs("src", n=60, w=320, h=240)
    args = ["src", *FIELDS, "--resize", "160"]
    pack(*args, "-o", "whole")
    p = subprocess.Popen([SLIMSET, "pack", *args, "-o", "out", "-j", "1", *(["--in-process"] if IN_PROCESS else [])], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(2000):
        if os.path.isdir("out/.slimset") and sum(n.startswith("frag-") for n in os.listdir("out/.slimset")) > 2:
            break
        time.sleep(0.005)
    p.send_signal(signal.SIGKILL)
    p.wait()
    pack(*args, "-o", "out")
    assert files("out") == files("whole")


def test_refused():
    pairs("src", n=1)
    for field, said in (("mask", "NAME=PATTERN is wanted"), ("mask=valannot/a.png", "has no {}"), ("mask={}/{}.png", "once only"),
                        ("mask=*/*/{}.png", "once before"), ("m.k=a/{}.png", "letters, digits"),
                        ("mask=annot/{}.png", "none of the 2 files found is called so; one is called val")):
        p = pack("src", "-o", "out", "--field", field, code=2)
        assert said in p.err and not os.path.exists("out"), p.err


def hints(*args):
    return [line[6:] for line in run("plan", *args, code=0).err.splitlines() if line.startswith("note: found ")]


def follow(source, hint, out, **k):
    """Packs with the options of a hint, as a shell reads them."""
    flags = shlex.split(hint.split(": to make them one sample: ")[1])
    return pack(source, "-o", out, *flags, **k)


def test_hint():
    """What the hint says is exact: its options give samples with masks."""
    pairs("src")
    assert hints("src") == ["found 6 files in valannot with the stems of val: to make them one sample: "
                            "--field image='val/{}.png' --field mask='valannot/{}.png'"], hints("src")
    follow("src", hints("src")[0], "out")
    assert keys("out") == {f"{i:04d}": ["png", "mask.png"] for i in range(6)}
    pack("src", "-o", "alone")  # a hint joins nothing by itself
    assert len(ls("alone")) == 12
    assert hints("src", *FIELDS) == []
    pairs("kaggle", folders=("train", "train_masks"), suffix="_mask", ext="jpg")
    assert hints("kaggle") == ["found 6 files in train_masks with the stems of train: to make them one sample: "
                               "--field image='train/{}.jpg' --field mask='train_masks/{}_mask.png'"], hints("kaggle")


def test_hint_of_splits():
    for k, s in enumerate(("train", "val", "test")):
        pairs("a", n=3, folders=(s, s + "annot"), seed=10 * k)
        pairs("b", n=3, folders=(f"images/{s}", f"annotations/{s}"), seed=10 * k)
    (hint,) = hints("a")
    assert hint.startswith("found 9 files in testannot and 2 more folders"), hint
    assert hint.endswith("--field image='*/{}.png' --field mask='*annot/{}.png'"), hint
    follow("a", hint, "out-a")
    want = {f"{s}/{i:04d}": ["png", "mask.png"] for s in ("train", "val", "test") for i in range(3)}
    assert keys("out-a") == want
    (hint,) = hints("b")
    assert hint == ("found 9 files in annotations with the stems of images: to make them one sample: "
                    "--field image='images/{}.png' --field mask='annotations/{}.png'"), hint
    follow("b", hint, "out-b")
    assert keys("out-b") == want and {s["split"] for s in ls("out-b")} == {"train", "val", "test"}


def test_hint_quotes_and_keeps_quiet():
    pairs("it's", folders=("a b/it's", "a b/it's masks"))
    pairs("it's", folders=("a b/it's", "a b/depth"))
    got = hints("it's")
    assert len(got) == 2 and "--field image='a b/it'\\''s/{}.png'" in got[0] and "--field depth=" in got[0], got
    follow("it's", got[1], "out")
    assert set(keys("out")["0000"]) == {"png", "mask.png"}, keys("out")
    for i in range(4):
        save(f"one/{i}.png", picture(32, 24, i))
        save(f"one/{i}_mask.png", labels(32, 24, i))
        save(f"classes/with_mask/{i}.png", picture(32, 24, i))
        save(f"classes/without_mask/{i}.png", picture(32, 24, 9 + i))
        save(f"apart/images/{i}.png", picture(32, 24, i))
        save(f"apart/masks/{i + 100}.png", labels(32, 24, i))
    (hint,) = hints("one")
    assert hint.endswith("--field image='{}.png' --field mask='{}_mask.png'"), hint
    follow("one", hint, "out-one")
    assert keys("out-one") == {str(i): ["png", "mask.png"] for i in range(4)}, keys("out-one")
    assert hints("classes") == [] and hints("apart") == []


def frames(root, n, w=64, h=48, seed=0):
    for i in range(n):
        write(f"{root}/f{i}.jpg", jpeg(picture(w, h, seed + i)))


def test_group_by():
    """A folder is a sample: its pictures are numbered in byte order, what else lies there keeps its name."""
    frames("src/train/cat/v1", 12)
    frames("src/train/dog/v2", 3, seed=20)
    write("src/train/dog/v2/meta.json", b"{}")
    write("src/train/dog/v2.txt", b"two dogs")
    p = pack("src", "-o", "out", "--group-by", "v*", "--resize", "32")
    got = {k: [f for f in v if f != "cls"] for k, v in keys("out").items()}
    assert got == {"train/cat/v1": [f"{i:03d}.jpg" for i in range(12)],
                   "train/dog/v2": ["000.jpg", "001.jpg", "002.jpg", "meta.json", "txt"]}, got
    assert {(s["key"], s["split"], s["class"]) for s in ls("out")} == {("train/cat/v1", "train", "cat"), ("train/dog/v2", "train", "dog")}
    paths = [f["path"] for s in ls("out") if s["key"] == "train/cat/v1" for f in s["fields"] if f["name"] != "cls"]
    assert paths == sorted(f"train/cat/v1/f{i}.jpg" for i in range(12)), paths  # f10 before f2: bytes
    assert "v1/f11.jpg comes before train/cat/v1/f2.jpg" in p.err and "warning: --group-by" in p.err, p.err
    m = members("out")
    assert m["train/dog/v2.txt"] == b"two dogs" and opened(m["train/cat/v1.011.jpg"]).shape == (24, 32, 3)
    assert ".jpg: 15 files, image" in p.err, p.err  # one kind of field, not one a number
    with zipfile.ZipFile("s.zip", "w") as z:
        for d, _, names in os.walk("src"):
            for n in names:
                z.write(f"{d}/{n}", os.path.relpath(f"{d}/{n}", "src"))
    pack("s.zip", "-o", "zip", "--group-by", "train/*/v?", "--resize", "32")
    assert members("zip") == m
    before = files("out")
    assert "nothing had changed" in pack("src", "-o", "out", "--group-by", "v*", "--resize", "32").out and files("out") == before
    p = pack("src", "-o", "out", "--group-by", "v1", "--resize", "32", code=2)
    assert "group-by: v* -> v1" in p.err, p.err


def test_group_by_keeps_quiet_where_numbers_are_in_order():
    for i, n in enumerate(("f0007.jpg", "f008.jpg", "f012.jpg", "f1.jpg", "x3.jpg", "x4b1.jpg", "x4b2.jpg", "x10.txt")):
        write(f"src/v/{n}", jpeg(picture(20, 20, i)) if n.endswith("jpg") else b"x")
    p = pack("src", "-o", "out", "--group-by", "v")
    assert "f012.jpg comes before v/f1.jpg" in p.err, p.err  # 12 and 1
    os.remove("src/v/f1.jpg")
    p = pack("src", "-o", "quiet", "--group-by", "v")
    assert "comes before" not in p.err, p.err


def test_group_by_limits():
    frames("src/long", 201, w=8, h=8)
    frames("src/short", 200, w=8, h=8)
    p = pack("src", "-o", "out", "--group-by", "*", code=3)
    assert "long/f0.jpg has 201 files, and a sample holds 200 at most: its files are rejects" in p.err, p.err
    assert len(keys("out")["short"]) == 200 and list(keys("out")) == ["short"]
    assert {r["class"] for r in rejects("out").values()} == {"duplicate"} and len(rejects("out")) == 201
    p = pack("src", "-o", "none", "--group-by", "other", code=2)
    assert "no folder is called so" in p.err, p.err
    p = pack("src", "-o", "none", "--group-by", "*", "--field", "image=long/{}.jpg", code=2)
    assert "only one of them" in p.err, p.err


main([f for n, f in sorted(globals().items()) if n.startswith("test_")])
