# SPDX-License-Identifier: Apache-2.0
# time-limit: 400 s
"""The same bytes whatever happens on the way: workers, kills, reruns, changes."""
import os
import random
import shutil
import signal
import subprocess
import time

from _frame import SLIMSET, files, ls, main, pack, photos, picture, jpeg, write, run


def test_any_number_of_workers():
    photos("src", 70)
    pack("src", "-o", "a", "--resize", "96", "-j", "1")
    golden = files("a")
    assert len([n for n in golden if n.endswith(".tar")]) == 32, sorted(golden)
    for extra in (["-j", "2"], ["-j", "7"], ["-j", "16"], ["--in-process"], ["-j", "3", "--window", "1"], ["--window", "1000"]):
        shutil.rmtree("b", ignore_errors=True)
        run("pack", "src", "-o", "b", "--resize", "96", *extra, code=0)
        assert files("b") == golden, extra


def test_copied_source_gives_same_bytes():
    photos("src", 40)
    pack("src", "-o", "a", "--resize", "96")
    names = []
    for d, _, ns in os.walk("src"):
        names += [os.path.join(d, n) for n in ns]
    random.Random(5).shuffle(names)
    for n in names:  # other order of creation, other times
        to = n.replace("src", "copy", 1)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(n, to)
        os.utime(to, (1000, 1000))
    pack("copy", "-o", "b", "--resize", "96", env={"TZ": "Asia/Tokyo", "LC_ALL": "C"})
    assert files("a") == files("b")


def test_kill_and_resume():
    photos("src", 160, 400, 300)
    pack("src", "-o", "golden", "--resize", "200")
    golden = files("golden")
    rng = random.Random(11)
    kills = resumed = 0
    while kills < 12:
        shutil.rmtree("out", ignore_errors=True)
        for attempt in range(40):
            p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "200", "-j", "2"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(rng.uniform(0.02, 0.5))
            finished = p.poll() is not None
            p.send_signal(signal.SIGKILL)
            out, err = p.communicate()
            resumed += b"were finished before" in err
            if finished:
                break
            kills += 1
            if os.path.exists("out/slimset.index"):  # never there before everything it names is
                run("verify", "out", code=0)
        run("pack", "src", "-o", "out", "--resize", "200", code=0)
        assert files("out") == golden
        assert os.listdir("out/.slimset") == ["stat"], os.listdir("out/.slimset")
    assert resumed > 0


def test_rerun_rewrites_nothing():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    before = {n: os.stat(f"out/{n}").st_mtime_ns for n in os.listdir("out")}
    inode = os.stat("out/slimset.index").st_ino
    p = pack("src", "-o", "out", "--resize", "96")
    assert "nothing had changed" in p.out, p.out
    del before[".slimset"]
    assert {n: os.stat(f"out/{n}").st_mtime_ns for n in before} == before
    assert os.stat("out/slimset.index").st_ino == inode


def test_touched_source_is_compared_by_content():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    golden = files("out")
    for d, _, names in os.walk("src"):
        for n in names:
            os.utime(os.path.join(d, n))
    for extra in ([], ["--verify-inputs"]):
        p = pack("src", "-o", "out", "--resize", "96", *extra)
        assert "0 written" in p.out, p.out
        assert files("out") == golden
    os.remove("out/.slimset/stat")
    p = pack("src", "-o", "out", "--resize", "96")
    assert "0 written" in p.out, p.out


def test_changed_content_with_the_old_time_needs_verify_inputs():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    path = "src/cat/0000.jpg"
    st = os.stat(path)
    data = bytearray(open(path, "rb").read())
    data[-40] ^= 1
    with open(path, "r+b") as f:
        f.write(data)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    assert "0 written" in pack("src", "-o", "out", "--resize", "96").out
    assert "1 written" in pack("src", "-o", "out", "--resize", "96", "--verify-inputs", code=None).out


def changed_parts(before, after):
    return {n for n in before.keys() | after.keys() if before.get(n) != after.get(n) and n.endswith(".tar")}


def test_changed_added_deleted_rewrite_one_shard():
    photos("src", 80)
    pack("src", "-o", "out", "--resize", "96")
    a = files("out")
    write("src/cat/0000.jpg", jpeg(picture(160, 120, 999)))
    p = pack("src", "-o", "out", "--resize", "96")
    b = files("out")
    assert len(changed_parts(a, b)) == 1 and "1 written, 31 kept" in p.out, p.out
    write("src/dog/new.jpg", jpeg(picture(160, 120, 1000)))
    pack("src", "-o", "out", "--resize", "96")
    c = files("out")
    assert len(changed_parts(b, c)) == 1
    assert len(ls("out")) == 81
    os.remove("src/dog/new.jpg")
    pack("src", "-o", "out", "--resize", "96")
    assert files("out") == b
    run("verify", "out", "--decode", code=0)


def test_interrupted_update_leaves_the_old_set_whole():
    photos("src", 120, 400, 300)
    pack("src", "-o", "out", "--resize", "200")
    old = files("out")
    for i in range(0, 120, 2):
        write(f"src/cat/{i:04d}.jpg", jpeg(picture(400, 300, 5000 + i)))
    shutil.copytree("out", "fresh")
    pack("src", "-o", "fresh", "--resize", "200")
    golden = files("fresh")
    rng = random.Random(3)
    for k in range(10):
        p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "200"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.02, 0.35))
        p.kill()
        p.wait()
        now = files("out")
        if "slimset.index" in now:
            assert now == old or now == golden, k
    pack("src", "-o", "out", "--resize", "200")
    assert files("out") == golden
    assert os.listdir("out/.slimset") == ["stat"]


def test_changed_recipe_is_named():
    photos("src", 10)
    pack("src", "-o", "out", "--resize", "96")
    golden = files("out")
    p = run("pack", "src", "-o", "out", "--resize", "80", "--quality", "85", code=2)
    assert "resize: long:96 -> long:80" in p.err and "quality: 90 -> 85" in p.err and "--force" in p.err, p.err
    assert files("out") == golden
    pack("src", "-o", "out", "--resize", "80", "--quality", "85", "--force")
    pack("src", "-o", "fresh", "--resize", "80", "--quality", "85")
    assert files("out") == files("fresh")


def test_interrupt_stops_cleanly_and_resumes():
    photos("src", 150, 1000, 800)
    pack("src", "-o", "golden", "--resize", "200")
    p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "200", "-j", "1"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    while not os.path.exists("out/.slimset/plan"):
        time.sleep(0.005)
    begin = time.monotonic()
    p.send_signal(signal.SIGINT)
    _, err = p.communicate()
    assert p.returncode == 130, (p.returncode, err)
    assert time.monotonic() - begin < 2.0
    assert not os.path.exists("out/slimset.index")
    run("pack", "src", "-o", "out", "--resize", "200", code=0)
    assert files("out") == files("golden")


def test_two_runs_on_one_out():
    photos("src", 150, 1000, 800)
    p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "200", "-j", "1"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    while not os.path.isdir("out/.slimset/stage"):
        time.sleep(0.01)
    q = run("pack", "src", "-o", "out", "--resize", "200", code=2)
    assert "in use by another" in q.err, q.err
    assert p.wait() == 0


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
