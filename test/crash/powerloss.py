# SPDX-License-Identifier: Apache-2.0
# time-limit: 400 s
"""The power fails after each call of a run, and the disk keeps what it must and any part of the rest (_disk.py). In
every such state: an index that is there names only what is there with the right bytes, and `slimset pack` again gives
golden and leaves no temporary. The source is never lost.

`./dev test` takes PORTION distinct states of each run, chosen by a fixed seed, `./dev torture` all of them and more
seeds, and cuts the power a second time during some of the recoveries."""
import os
import random
import shutil

from _crash import LONG, Run, build_shim, files, jpeg, lies_in, main, mend, photos, picture, write
from _disk import Node, Record, lay_out, load, states

PORTION = 45
OUT = "disk/out"
total = 0


def record(words, initial=None):
    """Runs the command on a disk with `initial` in OUT, recording it."""
    shutil.rmtree("disk", ignore_errors=True)
    os.mkdir("disk")
    if initial:
        shutil.copytree(initial, OUT, copy_function=shutil.copy2)
    inos = {}
    disk = load("disk", inos)
    here = os.stat(".").st_ino
    inos[here] = root = Node(here, {"disk": disk})
    r = Run(*words, log="log", sync=True)
    assert r.code == 0, r.err
    return Record(root, inos, "log")


def place(found):
    shutil.rmtree("disk", ignore_errors=True)
    os.mkdir("disk")
    lay_out(found, ".")


def recover(words, golden, old, what, found):
    global total
    total += 1
    place(found)
    if os.path.exists(OUT + "/slimset.index"):
        assert lies_in(golden, OUT) or (old and lies_in(old, OUT)), (what, "the index names what is not there")
        r = Run("verify", OUT)
        assert r.code == 0 or (words[0] == "verify" and r.code == 4), (what, "verify", r.out, r.err)
    elif not os.path.isdir(OUT):
        shutil.rmtree("disk/out", ignore_errors=True)
    mend(words, golden, OUT, what)


def cut(name, words, golden, old=None, initial=None):
    rec = record(words, initial)
    assert files(OUT) == golden, name
    all_states = list(states(rec, name, 3 if LONG else 1))
    rng = random.Random(name)
    chosen = all_states if LONG else rng.sample(all_states, min(PORTION, len(all_states)))
    for what, found in chosen:
        recover(words, golden, old, f"{name}: {what}", found)
    print(f"{name}: {len(rec.ops)} calls, {len(all_states)} distinct states, {len(chosen)} tried")
    # the power fails again during the recovery
    for what, found in rng.sample(all_states, 12 if LONG else 2):
        place(found)
        if not os.path.isdir(OUT):
            continue
        shutil.rmtree("again", ignore_errors=True)
        shutil.copytree(OUT, "again", copy_function=shutil.copy2)
        second = list(states(record(words, "again"), what))
        for words2, found2 in rng.sample(second, min(len(second), 150 if LONG else 8)):
            recover(words, golden, old, f"{name}: {what}; then {words2}", found2)
    print(f"with those of a second cut {total} states so far")


def each_call(name, rec, words, golden, names, data):
    """All states of one kind."""
    tried = []
    for n in range(len(rec.ops) + 1):
        found = rec.state(n, names, data, random.Random(0))
        if found not in tried:
            tried.append(found)
            recover(words, golden, None, f"{name}: after call {n} of {len(rec.ops)}", found)
    print(f"{name}: {len(rec.ops)} calls, {len(tried)} states")


def words_for(*extra):
    return ["pack", "src", "-o", OUT, "--in-process", *(extra or ("--resize", "24"))]


def golden_of(words, initial=None):
    shutil.rmtree("disk", ignore_errors=True)
    os.mkdir("disk")
    if initial:
        shutil.copytree(initial, OUT, copy_function=shutil.copy2)
    r = Run(*words)
    assert r.code == 0, r.err
    return files(OUT)


def keep(name):
    shutil.rmtree(name, ignore_errors=True)
    os.rename(OUT, name)


def change():
    write("src/cat/0000.jpg", jpeg(picture(48, 36, 77)))
    write("src/dog/new.jpg", jpeg(picture(48, 36, 78)))
    os.remove("src/dog/0001.jpg")


def test_fresh():
    photos("src", 20, 48, 36)
    cut("fresh", words_for(), golden_of(words_for()))


def test_fresh_with_workers():
    photos("src", 8, 48, 36)
    words = ["pack", "src", "-o", OUT, "--resize", "24", "-j", "2"]
    cut("workers", words, golden_of(words))


def test_update():
    photos("src", 20, 48, 36)
    old = golden_of(words_for())
    keep("before")
    change()
    cut("update", words_for(), golden_of(words_for(), "before"), old, "before")


def test_update_of_kept_bytes():
    """Without --resize a changed file may have the size it had: sizes prove nothing."""
    write("src/cat/a.bmp", b"BM" + bytes.fromhex("3a000000000000003600000028000000010000000100000001001800") + bytes(24) + b"\1\2\3\0")
    photos("src", 6, 48, 36)
    words = words_for("--codec", "keep")
    old = golden_of(words)
    keep("before")
    with open("src/cat/a.bmp", "r+b") as f:
        f.seek(-4, 2)
        f.write(b"\7")
    cut("same size", words, golden_of(words, "before"), old, "before")


def test_tree():
    photos("src", 8, 48, 36)
    words = words_for("--to", "tree", "--resize", "24")
    old = golden_of(words)
    cut("tree", words, old)
    golden_of(words)
    keep("before")
    change()
    os.remove("src/cat/0002.jpg")
    write("src/cat/0002.jpg/inside.jpg", jpeg(picture(48, 36, 79)))  # a file becomes a folder
    cut("tree update", words, golden_of(words, "before"), old, "before")


def test_force():
    photos("src", 10, 48, 36)
    old = golden_of(words_for())
    keep("before")
    words = words_for("--resize", "20", "--force")
    cut("force", words, golden_of(words, "before"), old, "before")


def test_resumed():
    photos("src", 12, 48, 36)
    golden = golden_of(words_for())
    shutil.rmtree(OUT)
    r = Run(*words_for(), cls="create", fault=-1, at=20)
    assert r.code == -9
    keep("before")
    cut("resumed", words_for(), golden, None, "before")


def test_fragment_without_its_file():
    """A first cut kept the fragment of a shard and lost its file; a second one leaves the new file with its size only."""
    photos("src", 5, 48, 36)
    words = words_for()
    golden = golden_of(words)
    shutil.rmtree(OUT)
    assert Run(*words, cls="create", fault=-1, at=12).code == -9
    there = [n for n in os.listdir(OUT + "/.slimset") if n.startswith("frag-")]
    assert there
    for n in there:
        os.remove(f"{OUT}/.slimset/stage/{n[5:]}.tar")
    keep("before")
    each_call("fragment without its file", record(words, "before"), words, golden, "all", "zero")


def test_only_the_last_name():
    """Of the names that are not certain only the last is there: a shard in OUT, and no .slimset beside it."""
    photos("src", 4, 48, 36)
    words = words_for()
    golden = golden_of(words)
    each_call("only the last name", record(words), words, golden, "last", "all")


def test_fix():
    """While damage is mended: the dataset is as damaged as before, or whole."""
    photos("src", 10, 48, 36)
    golden = golden_of(words_for("--resize", "24", "--shards", "5"))
    tars = sorted(n for n in golden if n.endswith(".tar"))
    for name in tars[:2]:
        with open(f"{OUT}/{name}", "r+b") as f:
            f.seek(700)
            f.write(b"damage")
    os.remove(f"{OUT}/{tars[2]}")
    damaged = files(OUT)
    keep("before")
    cut("fix", ["verify", "--fix", OUT, "src", "-j", "1"], golden, damaged, "before")


def test_nothing_to_do():
    photos("src", 6, 48, 36)
    golden = golden_of(words_for())
    keep("before")
    cut("rerun", words_for(), golden, golden, "before")


build_shim()
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
