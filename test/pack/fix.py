#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slimset verify --fix: what is damaged is built again, byte for byte; what cannot be is said."""
import json
import os
import shutil
import subprocess
import sys
import time

from _frame import IN_PROCESS, SLIMSET, files, jpeg, main, pack, photos, picture, run, write


def make(*options, n=12, shards=4):
    photos("src", n)
    write("src/cat/bad.jpg", b"\xff\xd8\xff nothing")
    pack("src", "-o", "out", "--shards", str(shards), "--resize", "64", *options, code=3)
    return files("out")


def flip(path, at=None):
    with open(path, "r+b") as f:
        f.seek(0, 2)
        at = f.tell() // 2 if at is None else at
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def tars():
    return sorted(n for n in os.listdir("out") if n.endswith(".tar"))


def test_damaged_shards_are_built_again():
    want = make()
    shards = tars()
    inodes = {n: os.stat(f"out/{n}").st_ino for n in shards}
    flip(f"out/{shards[0]}")
    os.truncate(f"out/{shards[1]}", 700)
    os.unlink(f"out/{shards[2]}")
    p = run("verify", "out", code=4)
    for n in shards[:3]:
        assert n in p.out, p.out
    p = run("verify", "--fix", "out", code=0)
    assert "fixed: 3 shards built again" in p.out and "all well" in p.out, p.out
    assert files("out") == want
    assert os.stat(f"out/{shards[3]}").st_ino == inodes[shards[3]], "a shard without damage was written again"
    assert os.listdir("out/.slimset") == ["stat"]
    run("verify", "out", code=0)
    assert "nothing to do" in pack("src", "-o", "out", "--shards", "4", "--resize", "64", code=3).out.lower() or files("out") == want


def test_a_staged_shard_that_is_flipped_before_the_resume():
    """A resumed run looks at names and sizes of what is staged, not at all its bytes: verify does, and --fix mends it."""
    photos("src", 160, 400, 300)
    pack("src", "-o", "golden", "--resize", "200")
    done = lambda: [n for n in os.listdir("out/.slimset") if n.startswith("frag-")] if os.path.isdir("out/.slimset") else []
    while len(done()) < 3:
        p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "200", "-j", "1"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        while len(done()) < 3 and p.poll() is None:
            time.sleep(0.001)
        p.kill()
        p.wait()
    assert not os.path.exists("out/slimset.index"), "the run was over before it could be killed"
    names = [n[5:] + ".tar" for n in done()]
    assert all(os.path.exists(f"out/.slimset/stage/{n}") for n in names), (names, os.listdir("out/.slimset/stage"))
    flip(f"out/.slimset/stage/{names[0]}")
    os.truncate(f"out/.slimset/stage/{names[1]}", 700)  # this one has another size: it is made again
    p = run("pack", "src", "-o", "out", "--resize", "200", code=0)
    assert "finished before" in p.err + p.out, p.err
    assert [n for n, h in files("golden").items() if files("out")[n] != h] == [names[0]]
    p = run("verify", "out", code=4)
    assert names[0] in p.out and names[1] not in p.out, p.out
    run("verify", "--fix", "out", code=0)
    assert files("out") == files("golden")


def test_tree():
    want = make("--to", "tree")
    names = sorted(n for n in want if n.endswith(".jpg"))
    flip(f"out/{names[0]}")
    os.unlink(f"out/{names[5]}")
    run("verify", "out", code=4)
    run("verify", "--fix", "out", code=0)
    assert files("out") == want


def test_from_another_folder_and_with_moved_sources():
    want = make()
    flip(f"out/{tars()[0]}")
    os.mkdir("elsewhere")
    run("verify", "--fix", "../out", code=0, cwd="elsewhere")  # the sources were given relative to another folder
    assert files("out") == want
    flip(f"out/{tars()[0]}")
    os.rename("src", "elsewhere/moved")
    p = run("verify", "--fix", "out", code=1)
    assert "src" in p.err and files("out") != want, p.err
    run("verify", "--fix", "out", "elsewhere/moved", code=0)
    assert files("out") == want


def test_changed_source_is_named_and_not_used():
    want = make()
    damaged = tars()
    for n in damaged:
        flip(f"out/{n}")
    write("src/cat/0000.jpg", jpeg(picture(160, 120, 99)))
    os.unlink("src/dog/0001.jpg")
    p = run("verify", "--fix", "out", code=4)
    assert "cat/0000.jpg" in p.err or "dog/0001.jpg" in p.err, p.err
    now = files("out")
    lost = [n for n in damaged if now[n] != want[n]]
    assert 1 <= len(lost) <= 2, lost  # those of the two files; all others are as they were
    for n in lost:
        assert n in p.out, p.out
    assert now["slimset.index"] == want["slimset.index"]
    assert os.listdir("out/.slimset") == ["stat"]
    # pack takes the change over, since the stat file knows nothing of it
    pack("src", "-o", "out", "--shards", "4", "--resize", "64", code=3)
    pack("src", "-o", "fresh", "--shards", "4", "--resize", "64", code=3)
    run("verify", "--fix", "out", code=0)
    run("verify", "out", code=0)


def test_wrong_sources_are_refused():
    want = make()
    photos("other", 3, classes=("x",))
    flip(f"out/{tars()[0]}")
    before = files("out")
    p = run("verify", "--fix", "out", "other", code=1)
    assert "other sources" in p.err, p.err
    assert files("out") == before
    run("verify", "--fix", "out", code=0)
    assert files("out") == want


def test_index_that_is_damaged_or_gone():
    want = make()
    for harm in (lambda: flip("out/slimset.index"), lambda: os.unlink("out/slimset.index"), lambda: os.truncate("out/slimset.index", 300)):
        harm()
        run("verify", "--fix", "out", code=0)
        assert files("out") == want
    # where nothing tells the source either, the way out is named
    os.unlink("out/slimset.index")
    shutil.rmtree("out/.slimset")
    p = run("verify", "--fix", "out")
    assert p.returncode == 1 and "SRC" in p.err, (p.returncode, p.err)


def test_without_stat_file():
    want = make()
    shutil.rmtree("out/.slimset")
    flip(f"out/{tars()[0]}")
    p = run("verify", "--fix", "out", code=1)
    assert "verify --fix OUT SRC" in p.err, p.err
    p = run("verify", "--fix", "out", "src", code=1)  # the recipe was not the default one: what differs is said
    assert "resize" in p.err, p.err
    pack("src", "-o", "plain", code=3)
    want = files("plain")
    shutil.rmtree("plain/.slimset")
    flip("plain/" + sorted(n for n in want if n.endswith(".tar"))[0])
    run("verify", "--fix", "plain", "src", code=0)
    assert files("plain") == want


def test_killed_while_fixing():
    if IN_PROCESS:
        return
    photos("src", 60, w=640, h=480)
    pack("src", "-o", "out", "--shards", "10", "--resize", "300")
    want = files("out")
    for delay in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4):
        for n in tars():
            flip(f"out/{n}")
        p = subprocess.Popen([SLIMSET, "verify", "--fix", "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(delay)
        p.kill()
        p.communicate()
        run("verify", "--fix", "out", code=0)
        assert files("out") == want, delay
        assert os.listdir("out/.slimset") == ["stat"], os.listdir("out/.slimset")


def test_unfinished_update_comes_first():
    make()
    flip(f"out/{tars()[0]}")
    os.makedirs("empty")
    shutil.copytree("out", "twin")
    # a plan of an update that was stopped: made by a run that rejects end
    write("src/cat/0000.jpg", b"no image")
    p = pack("src", "-o", "out", "--shards", "4", "--resize", "64", "--max-rejects", "1", code=1)
    assert os.path.exists("out/.slimset/plan"), p.err
    p = run("verify", "--fix", "out", code=1)
    assert "has not finished" in p.err, p.err


def test_json():
    make()
    flip(f"out/{tars()[0]}")
    lines = [json.loads(line) for line in run("verify", "--fix", "--json", "out", code=0).out.splitlines()]
    assert [x["type"] for x in lines if x["type"] != "note"] == ["damage", "fixed", "summary"], lines
    assert lines[-2] == {"type": "fixed", "shards": 1, "lost": 0} and lines[-1]["damaged"] == 0


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
