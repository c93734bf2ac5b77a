# SPDX-License-Identifier: Apache-2.0
"""What a hostile or clumsy user does: decisions mixed between runs, work files damaged, sources in
OUT, names that collide, archives that lie, budgets, limits. Every test states what is right, judged
by tarfile, Pillow and `slimset verify`."""
import io
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
import zipfile
from collections import Counter

import numpy as np
from PIL import Image

from _frame import (SLIMSET, files, jpeg, ls, main, members, pack, photos, picture, rejects, run,
                    save, write)

SMALL = jpeg(picture(60, 40, 1))
BROKEN = SMALL[:300]


def png(array):
    b = io.BytesIO()
    Image.fromarray(array).save(b, "PNG")
    return b.getvalue()


def fragments(out):
    try:
        return sum(n.startswith("frag-") for n in os.listdir(out + "/.slimset"))
    except OSError:
        return 0


def started(*args, out="out", stderr=subprocess.DEVNULL):
    return subprocess.Popen([SLIMSET, "pack", *args, "-o", out], stdout=subprocess.DEVNULL,
                            stderr=stderr)


def killed(*args, out="out", after=3):
    """Runs pack with one worker until `after` shards are finished, then kill -9."""
    p = started(*args, "-j", "1", out=out)
    while fragments(out) < after and p.poll() is None:
        time.sleep(0.001)
    p.kill()
    assert p.wait() == -signal.SIGKILL, "the run was over before it could be killed"


def tar_of(path, items, fmt=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=fmt) as t:
        for name, data in items:
            m = tarfile.TarInfo(name)
            m.size = len(data)
            t.addfile(m, io.BytesIO(data))


def well(out, decode=True):
    """verify finds no damage and nothing that is not part of the dataset."""
    p = run("verify", out, *(["--decode"] if decode else []), code=0)
    assert "not part of" not in p.out, p.out
    return p


def keys(out):
    return [s["key"] for s in ls(out)]


def sizes(out):
    found = members(out).items()
    return Counter(Image.open(io.BytesIO(v)).size for k, v in found if k.endswith(".jpg"))


def accounted(out):
    """Source paths that the index names, packed or not."""
    paths = {f["path"] for s in ls(out) for f in s["fields"] if f.get("path")}
    return paths | {r["path"] for q in ("--rejects", "--left-out") for r in ls(out, q)}


# --- decisions and recipes of different runs ------------------------------------------------------


def test_interrupted_force_is_not_completed_with_old_shards():
    photos("src", 160, 400, 300)
    pack("src", "-o", "out", "--resize", "200")
    killed("src", "--resize", "64", "--force")
    p = run("pack", "src", "-o", "out", "--resize", "64")
    if p.returncode == 2:  # refusing is as good
        p = run("pack", "src", "-o", "out", "--resize", "64", "--force", code=0)
    assert p.returncode == 0, p.err
    well("out")
    assert sizes("out") == {(64, 48): 160}, sizes("out")


def test_work_of_an_abandoned_update_never_replaces_good_shards():
    photos("src", 160, 400, 300)
    pack("src", "-o", "out", "--resize", "200")
    shutil.copytree("out", "golden")
    shutil.copytree("src", "keep")
    for d in ("src/cat", "src/dog"):
        for i, n in enumerate(os.listdir(d)):
            write(f"{d}/{n}", jpeg(picture(400, 300, 900 + i)))
    killed("src", "--resize", "200", after=8)
    shutil.rmtree("src")
    os.rename("keep", "src")  # the change is taken back, another one is made
    write("src/cat/new.jpg", jpeg(picture(400, 300, 5)))
    pack("src", "-o", "golden", "--resize", "200")
    pack("src", "-o", "out", "--resize", "200")
    well("out")
    assert files("out") == files("golden")


def test_files_of_an_abandoned_update_do_not_appear_in_a_tree():
    photos("src", 60, 300, 200)
    pack("src", "-o", "out", "--to", "tree", "--resize", "100")
    large = jpeg(picture(900, 700, 7))
    for i in range(200):
        write(f"src/cat/{i:04}new.jpg", large)
    killed("src", "--to", "tree", "--resize", "100", after=2)
    for i in range(200):
        os.remove(f"src/cat/{i:04}new.jpg")
    write("src/dog/one.jpg", SMALL)
    pack("src", "-o", "out", "--to", "tree", "--resize", "100")
    well("out")
    assert len([n for n in files("out") if n.endswith(".jpg")]) == 61


def test_lost_plan_does_not_mix_recipes():
    photos("src", 100, 400, 300)
    killed("src", "--resize", "200")
    with open("out/.slimset/plan", "r+b") as f:
        f.truncate(100)
    run("pack", "src", "-o", "out", "--resize", "64", code=0)
    well("out")
    assert sizes("out") == {(64, 48): 100}, sizes("out")


def test_replan_redoes_what_was_decided_otherwise():
    for i in range(30):
        a = np.zeros((200, 200, 3), np.uint8)
        a[:, :100] = i * 5
        a[50:90] = (200, i, 3)
        save(f"src/{i:03}.png", a)
    pack("src", "-o", "out", "--resize", "100")
    assert all(n.endswith(".png") for n in members("out"))
    for i in range(24):
        save(f"src/{i:03}.png", picture(200, 200, i))
    pack("src", "-o", "out", "--resize", "100", "--replan")
    pack("src", "-o", "fresh", "--resize", "100")
    assert members("out") == members("fresh")


def test_random_edits_end_like_one_run():
    """Rounds of random edits, each packed or killed: the end is that of one run."""
    contents = [jpeg(picture(60 + i, 50, i)) for i in range(5)]

    def edit(rng):
        for _ in range(8):
            d = rng.choice(["", "k1/", "k2/", "k2/deep er/", "train/k1/", "val/k1/"])
            name = rng.choice(["a", "b", "c d", "c_d", "e", "E", "x" * 120, "n\nl", "__h"])
            name += str(rng.randrange(4)) * rng.randrange(2)
            exts = ["jpg", "png", "JPG", "txt", "json", "seg.png", "jpeg"]
            path = f"src/{d}{name}." + rng.choice(exts)
            there = sorted(os.path.join(a, n) for a, _, b in os.walk("src") for n in b)
            loose = [n for n in there if "/base" not in n]
            text = path.endswith((".txt", ".json"))
            k = rng.randrange(10)
            if k < 6:
                write(path, b"text" if text else rng.choice(contents + [BROKEN]))
            elif k < 8 and loose:
                os.remove(rng.choice(loose))
            elif loose:
                os.utime(rng.choice(loose))

    for seed in range(8):
        layout, kill = ("shards", "tree")[seed % 2], seed >= 4
        rng = random.Random(seed)
        for d in ("src", "out", "golden"):
            shutil.rmtree(d, ignore_errors=True)
        for ext in ("jpg", "png", "jpeg", "txt", "json", "seg.png"):
            write(f"src/k1/base.{ext}", b"1" if ext in ("txt", "json") else contents[0])
        for d in ("", "train/k1/", "val/k1/"):
            write(f"src/{d}base_top.jpg", contents[1])
        edit(rng)
        how = ["--resize", "30", "--to", layout, "--classes", "none"]
        assert run("pack", "src", "-o", "out", *how).returncode in (0, 3)
        shutil.copytree("out", "golden")
        for _ in range(6):
            edit(rng)
            if kill:
                p = started("src", *how)
                time.sleep(rng.uniform(0.002, 0.05))
                p.kill()
                p.wait()
            else:
                assert run("pack", "src", "-o", "out", *how).returncode in (0, 3)
                well("out")
        for o in ("out", "golden"):
            assert run("pack", "src", "-o", o, *how).returncode in (0, 3)
            well(o)
        assert files("out") == files("golden"), (seed, layout, kill)
        assert len(set(keys("out"))) == len(keys("out"))


# --- the work folder ------------------------------------------------------------------------------


def test_damaged_work_files():
    photos("src", 90, 300, 200)
    pack("src", "-o", "golden", "--resize", "150")
    golden = files("golden")
    killed("src", "--resize", "150", out="base", after=5)
    paths = [os.path.join(d, n)[5:] for d, _, b in os.walk("base/.slimset") for n in b]
    assert len(paths) > 8
    for path in paths:
        for how in ("delete", "empty", "half", "longer", "flip"):
            if how == "flip" and ("/stage/" in path or os.path.getsize(f"base/{path}") == 0):
                continue  # in a staged file: a disk that lies, verify's business
            shutil.rmtree("out", ignore_errors=True)
            shutil.copytree("base", "out")
            n = os.path.getsize(f"out/{path}")
            with open(f"out/{path}", "r+b") as f:
                if how == "longer":
                    f.seek(n)
                    f.write(b"x")
                elif how == "flip":
                    f.seek(n // 2)
                    b = f.read(1)
                    f.seek(n // 2)
                    f.write(bytes([b[0] ^ 1]))
                else:
                    f.truncate(n // 2 if how == "half" else 0)
            if how == "delete":
                os.remove(f"out/{path}")
            pack("src", "-o", "out", "--resize", "150")
            assert files("out") == golden, (path, how)


def test_update_that_is_published_is_not_done_again():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    old = open("out/.slimset/stat", "rb").read()
    for i in range(0, 40, 2):
        write(f"src/cat/{i:04}.jpg", jpeg(picture(160, 120, 500 + i)))
    pack("src", "-o", "out", "--resize", "96")
    write("out/.slimset/stat", old)  # as a kill between the index and the stat file leaves it
    p = pack("src", "-o", "out", "--resize", "96")
    assert " 0 written" in p.out, p.out


# --- OUT and the sources --------------------------------------------------------------------------


def test_source_inside_out_is_refused():
    photos("src", 8)
    pack("src", "-o", "out", "--to", "tree")
    before = files("out")
    p = run("pack", "out/cat", "-o", "out", "--to", "tree")
    assert p.returncode == 2 and files("out") == before, (p.returncode, sorted(files("out")))
    pack("src", "-o", "tars")
    before = files("tars")
    tars = [f"tars/{n}" for n in sorted(before) if n.endswith(".tar")]
    p = run("pack", *tars, "-o", "tars", "--force")
    assert p.returncode == 2 and files("tars") == before, (p.returncode, p.out)


def test_refused_run_leaves_nothing_in_the_source():
    photos("src", 4)
    write("list", b"src\n")
    run("pack", "--files-from", "list", "-o", "src/cat/out", code=2)
    assert sorted(os.listdir("src/cat")) == ["0000.jpg", "0002.jpg"]
    for out in ("src", "src/new/deep", "src/../src/x"):
        p = run("pack", "src", "-o", out, code=2)
        assert "inside the source" in p.err
    assert sorted(os.listdir("src")) == ["cat", "dog"]


def test_long_list_of_files():
    photos("src", 3)
    names = [f"src/{c}/{i:04}.jpg" for i, c in enumerate(("cat", "dog", "cat"))]
    write("list", "".join(n + "\n" for n in names * 22000).encode())
    pack("--files-from", "list", "-o", "out")
    well("out")
    assert sorted(keys("out")) == sorted(n[:-4] for n in names)
    assert [len(s["fields"]) for s in ls("out")] == [1, 1, 1], members("out").keys()


# --- names ----------------------------------------------------------------------------------------


def test_unreadable_sibling_does_not_split_a_sample():
    for stem in ("a", "my pic"):
        shutil.rmtree("src", ignore_errors=True)
        shutil.rmtree("out", ignore_errors=True)
        write(f"src/{stem}.jpg", SMALL)
        os.makedirs("src", exist_ok=True)
        os.symlink("nowhere", f"src/{stem}.json")
        write(f"src/{stem}.png", png(picture(60, 40, 2)))
        write("src/z.jpg", SMALL)
        pack("src", "-o", "out", "--codec", "jpeg", code=3)
        well("out")
        assert len(set(keys("out"))) == len(keys("out")), keys("out")
        members("out")  # asserts that no name is there twice
        assert "duplicate" not in {r["class"] for r in rejects("out").values()}, rejects("out")


def test_names_of_dots():
    write("src/a/..jpg", SMALL)
    write("src/a/...jpg", SMALL)
    write("src/..png", png(picture(60, 40, 2)))
    write("src/a/.hidden.jpg", SMALL)
    write("src/a/x.jpg", SMALL)
    for layout in ("shards", "tree"):
        pack("src", "-o", layout, "--to", layout)
        well(layout)
        assert len(set(keys(layout))) == 5 and "" not in keys(layout), keys(layout)
    assert set(files("tree")) == {"a/..jpg", "a/...jpg", "..png", "a/.hidden.jpg", "a/x.jpg",
                                  "slimset.index"}


def test_long_field_names_fit():
    field = "x" * 60 + "a.png"
    for n in ("jpg", field, "Z" + field, "z" + field):
        write(f"src/{'k' * 60}.{n}", SMALL if n == "jpg" else png(picture(60, 40, 2)))
    pack("src", "-o", "out")
    well("out")
    assert len(members("out")) == 4


def test_tree_with_a_file_called_as_the_index():
    write("src/slimset.index", b"not ours")
    write("src/sub/slimset.index", b"not ours")
    write("src/a.jpg", SMALL)
    p = run("pack", "src", "-o", "out", "--to", "tree")
    assert p.returncode in (2, 3), (p.returncode, p.out)
    if p.returncode == 3:
        well("out")
        assert "slimset.index" in rejects("out"), rejects("out")


def test_tree_where_a_new_name_is_a_folder():
    write("src/x.jpg/in.jpg", SMALL)
    write("src/x.png", png(picture(60, 40, 2)))
    p = run("pack", "src", "-o", "out", "--to", "tree", "--codec", "jpeg")
    assert p.returncode in (0, 3), p.err
    well("out")
    assert accounted("out") == {"x.jpg/in.jpg", "x.png"}
    tar_of("b.tar", [("a", b"text"), ("a/b.jpg", SMALL), ("a.jpg", SMALL), ("a.jpg/c.jpg", SMALL)])
    p = run("pack", "b.tar", "-o", "b", "--to", "tree")
    assert p.returncode in (0, 3), p.err
    well("b")


def test_tree_where_a_file_becomes_a_folder_and_back():
    photos("src", 4)
    write("src/notes", b"zz")
    how = ["--to", "tree", "--classes", "none"]
    pack("src", "-o", "out", *how)
    for kind in ("folder", "file"):
        if kind == "folder":
            os.remove("src/notes")
            write("src/notes/n.jpg", SMALL)
        else:
            shutil.rmtree("src/notes")
            write("src/notes", b"zz")
        pack("src", "-o", "out", *how)
        well("out")
        fresh = "fresh-" + kind
        pack("src", "-o", fresh, *how)
        assert {k for k in files("out")} == {k for k in files(fresh)}


def test_tree_names_that_no_file_can_have():
    names = ("d/" + "n" * 300 + ".jpg", "x" * 300 + "/y.jpg", "q/" * 250 + "y.jpg", "ok.jpg")
    tar_of("a.tar", [(n, SMALL) for n in names])
    p = run("pack", "a.tar", "-o", "tree", "--to", "tree")
    assert p.returncode == 3, (p.returncode, p.err)
    well("tree")
    assert "ok" in keys("tree") and len(accounted("tree")) == 4
    pack("a.tar", "-o", "shards")
    well("shards")
    assert len(members("shards")) == 4 and max(map(len, members("shards"))) <= 255


def test_names_in_messages_stay_on_one_line():
    write("s\nrc/b\nad.jpg", BROKEN)
    write("s\nrc/\x1b[31mred.jpg", SMALL)
    os.symlink("nowhere", "s\nrc/dang\nling.jpg")
    p = run("pack", "s\nrc", "-o", "out", code=3)
    assert "\x1b" not in p.err and "\nad" not in p.err and "\nrc" not in p.err, p.err
    assert rejects("out").keys() == {"b\nad.jpg", "dang\nling.jpg"}
    assert "\n" not in "".join(keys("out"))
    for verb in (["pack", "no\nsuch", "-o", "o"], ["verify", "no\nsuch"], ["ls", "no\nsuch"]):
        assert "no\nsuch" not in run(*verb).err


# --- what an index must name, budgets -------------------------------------------------------------


def test_every_file_of_a_rejected_sample_is_listed():
    for n, data in (("a.jpg", SMALL), ("a.txt", b"label"), ("b.jpg", SMALL),
                    ("a.seg.png", b"\x89PNG\r\n\x1a\nbroken")):
        write(f"src/{n}", data)
    for layout in ("shards", "tree"):
        pack("src", "-o", layout, "--to", layout, code=3)
        assert accounted(layout) == {"a.jpg", "a.txt", "a.seg.png", "b.jpg"}, accounted(layout)


def test_boxes_in_one_of_many_files_are_found():
    for i in range(60):
        write(f"src/{i:03}.jpg", SMALL)
        write(f"src/{i:03}.json", b'{"caption": "x"}')
    for k in range(6):
        write(f"src/{k * 9:03}.json", b'{"version": "5.0", "flags": {}, "shapes": [{"label": "a", '
              b'"points": [[1, 2], [30, 40]], "shape_type": "rectangle"}], "imagePath": "a.jpg", '
              b'"imageHeight": 40, "imageWidth": 60}')
        p = run("pack", "src", "-o", f"out{k}", "--resize", "30")
        assert p.returncode in (1, 2) and "--boxes" in p.err, (k, p.returncode, p.err)
        write(f"src/{k * 9:03}.json", b'{"caption": "x"}')


def test_budget_counts_the_whole_dataset():
    photos("src", 160)
    for i in range(8):
        write(f"src/cat/bad{i}.jpg", BROKEN)
    pack("src", "-o", "out", "--max-rejects", "10%")
    write("src/cat/bad0.jpg", SMALL[:310])  # its shard is redone, the others keep their rejects
    pack("src", "-o", "out", "--max-rejects", "10%")


def test_budget_counts_finished_shards_of_an_interrupted_run():
    photos("src", 100, 400, 300)
    for i in range(20):
        write(f"src/cat/bad{i}.jpg", BROKEN)
    run("pack", "src", "-o", "fresh", "--resize", "200", "--max-rejects", "15", code=1)
    killed("src", "--resize", "200", after=20)
    run("pack", "src", "-o", "out", "--resize", "200", "--max-rejects", "15", code=1)


def test_strict_names_the_file():
    photos("src", 8)
    os.symlink("nowhere", "src/cat/dangling.jpg")
    assert "dangling.jpg" in run("pack", "src", "-o", "a", "--strict", code=1).err
    os.remove("src/cat/dangling.jpg")
    write("src/cat/bad.jpg", BROKEN)
    assert "bad.jpg" in run("pack", "src", "-o", "b", "--strict", code=1).err
    pack("src", "-o", "b", code=3)
    assert "bad.jpg" in run("pack", "src", "-o", "b", "--strict", code=1).err


def test_budget_edges():
    photos("src", 20)
    write("src/cat/bad.jpg", BROKEN)
    for value, code in (("0", 1), ("0%", 1), ("1", 0), ("4.7%", 1), ("4.8%", 0), ("100%", 0),
                        ("-1", 2), ("nan%", 2), ("101%", 2), ("5%%", 2), ("", 2),
                        ("18446744073709551617", 2)):
        shutil.rmtree("out", ignore_errors=True)
        run("pack", "src", "-o", "out", f"--max-rejects={value}", code=code)


def test_folder_that_may_not_be_searched_is_not_vanished():
    if os.getuid() != 0:
        return
    photos("src", 4)
    write("src/closed/a.jpg", SMALL)
    os.chmod("src/closed", 0o744)  # others may list it, not open what is in it
    os.chmod(".", 0o777)

    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    shutil.copy(SLIMSET, "slimset")  # nobody may not look into every folder a build can be in
    subprocess.run(["./slimset", "pack", "src", "-o", "out"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, preexec_fn=nobody, check=False)
    assert rejects("out")["closed/a.jpg"]["class"] == "unreadable", rejects("out")


# --- archives -------------------------------------------------------------------------------------


def test_webdataset_shards_keep_their_keys():
    want = {}
    for shard in range(3):
        items = [(f"{shard * 5 + i:06}.{ext}", SMALL if ext == "jpg" else b"%d" % i)
                 for i in range(5) for ext in ("jpg", "cls")]
        tar_of(f"train-{shard}.tar", items)
        want.update(items)
    pack("train-0.tar", "train-1.tar", "train-2.tar", "-o", "out")
    assert members("out") == want, sorted(members("out"))[:3]
    tar_of("other-0.tar", items)  # the same keys again: all are there, under distinct keys
    pack("train-2.tar", "other-0.tar", "-o", "twice")
    assert len(set(keys("twice"))) == 10


def test_damaged_tar_header_is_not_exit_0():
    tar_of("a.tar", [(f"{i}.jpg", SMALL) for i in range(9)], tarfile.USTAR_FORMAT)
    data = bytearray(open("a.tar", "rb").read())
    step = 512 + (len(SMALL) + 511) // 512 * 512
    data[4 * step:4 * step + 100] = b"\xaa" * 100
    write("a.tar", data)
    p = run("pack", "a.tar", "-o", "out")
    assert p.returncode == 3 and "a.tar" in p.err, (p.returncode, p.err)
    assert len(keys("out")) == 4


def test_tar_sizes_that_cannot_be():
    def header(name, raw, kind=b"0"):
        h = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
        h[124:136] = raw
        h[156:157] = kind
        h[148:156] = b" " * 8
        h[148:156] = b"%06o\0 " % sum(h)
        return bytes(h)

    good = header("ok.jpg", b"%011o\0" % len(SMALL)) + SMALL + b"\0" * (-len(SMALL) % 512)
    for raw, kind in ((b"77777777777\0", b"0"), (b"\xff" * 12, b"0"),
                      (b"\x80\0\0\0\x7f" + b"\xff" * 7, b"0"), (b"zzzzzzzzzzz\0", b"0"),
                      (b"77777777777\0", b"L"), (b"10000000000\0", b"x"), (b"00000000012\0", b"M")):
        write("a.tar", good + header("bad.jpg", raw, kind) + good + b"\0" * 1024)
        shutil.rmtree("out", ignore_errors=True)
        p = run("pack", "a.tar", "-o", "out")
        assert p.returncode in (0, 3) and "a.tar" in p.err, (raw, p.returncode, p.err)
        assert keys("out") == ["ok"]
        well("out")


def test_zip_directories_that_lie():
    with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for i in range(3):
            z.writestr(f"{i}.jpg", SMALL)
    data = open("a.zip", "rb").read()
    first = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", first + 4)
    for at, what, kinds in ((first + 24, b"\xfe\xff\xff\xff", {"ratio", "too-large"}),
                            (first + 42, b"\xf0\xff\xff\0", {"corrupt"}),
                            (second + 42, data[first + 42:first + 46], {"ratio"})):
        write("b.zip", data[:at] + what + data[at + 4:])
        shutil.rmtree("out", ignore_errors=True)
        pack("b.zip", "-o", "out", code=3)
        well("out")
        assert len(keys("out")) == 2
        assert {r["class"] for r in rejects("out").values()} <= kinds, rejects("out")
    with zipfile.ZipFile("names.zip", "w") as z:
        for n in ("/abs.jpg", "../up.jpg", "a\\b.jpg", "x//y.jpg", "./z.jpg", "z.jpg", "dir.jpg/",
                  " .jpg"):
            z.writestr(n, b"" if n.endswith("/") else SMALL)
    for layout in ("shards", "tree"):
        pack("names.zip", "-o", layout, "--to", layout, code=3)
        well(layout)
        assert {k: v["class"] for k, v in rejects(layout).items()} == {"../up.jpg": "name",
                                                                       "z.jpg": "duplicate"}
    assert not os.path.exists("../up.jpg") and not os.path.exists("/abs.jpg")


# --- limits and trouble ---------------------------------------------------------------------------


def test_few_descriptors():
    photos("src", 60)
    tar_of("a.tar", [(f"{i}.jpg", SMALL) for i in range(40)])
    for n in (32, 64):
        for source in ("src", "a.tar"):
            out = f"out{n}-{source}"
            command = f"ulimit -n {n}; exec '{SLIMSET}' pack {source} -o {out} --resize 50"
            p = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, check=False)
            assert p.returncode == 0, (n, source, p.stderr)
            assert not rejects(out)


def test_workers_that_are_killed():
    photos("src", 300, 600, 400)
    pack("src", "-o", "golden", "--resize", "200")
    p = started("src", "--resize", "200", stderr=subprocess.PIPE)
    n = 0
    while p.poll() is None and n < 4:
        time.sleep(0.15)
        try:
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                found = f.read().split()
        except FileNotFoundError:
            break
        if found:
            os.kill(int(found[n % len(found)]), signal.SIGKILL)
            n += 1
    err = p.communicate()[1]
    assert p.returncode == 0 and n > 0, (p.returncode, err)
    assert files("out") == files("golden")


def test_interrupted_twice():
    photos("src", 200, 900, 700)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        p = started("src", "--resize", "200", "-j", "1")
        while fragments("out") < 1:
            time.sleep(0.001)
        p.send_signal(number)
        p.send_signal(number)
        begin = time.monotonic()
        assert p.wait() == code and time.monotonic() - begin < 1
        shutil.rmtree("out")


def test_source_changes_under_the_run():
    data = [jpeg(picture(600, 400, i)) for i in range(4)]
    for i in range(600):
        write(f"src/{('cat', 'dog')[i % 2]}/{i:04}.jpg", data[i % 4])
    p = started("src", "--resize", "100", "-j", "1", "--order", "source", stderr=subprocess.PIPE)
    while fragments("out") < 1:
        time.sleep(0.001)
    write("src/dog/0599.jpg", SMALL)
    with open("src/dog/0597.jpg", "r+b") as f:
        f.truncate(1000)
    os.remove("src/dog/0595.jpg")
    for i, make in ((593, os.mkdir), (591, os.mkfifo)):
        os.remove(f"src/dog/{i:04}.jpg")
        make(f"src/dog/{i:04}.jpg")
    p.communicate(timeout=60)
    assert p.returncode == 3
    assert {k[4:8]: v["class"] for k, v in rejects("out").items()} == {
        "0599": "changed", "0597": "changed", "0595": "vanished", "0593": "not-regular",
        "0591": "not-regular"}
    os.rmdir("src/dog/0593.jpg")
    pack("src", "-o", "out", "--resize", "100", "--order", "source", code=3)
    pack("src", "-o", "fresh", "--resize", "100", "--order", "source", code=3)
    assert members("out") == members("fresh")


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
