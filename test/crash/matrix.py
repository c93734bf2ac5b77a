# SPDX-License-Identifier: Apache-2.0
# time-limit: 400 s
"""One hash, whatever the circumstances: number of workers, window, sandbox or in-process, fresh or resumed, SIMD or not,
locale, time zone, umask, and a source copied with other times, in other order, with other inodes.

`./dev test` takes a subset in which every value of every dimension occurs, `./dev torture` the whole product, and the
program built once more without any of its own SIMD code."""
import itertools
import os
import random
import shutil
import subprocess
import time

from _crash import LONG, SHIM, SLIMSET, build_shim, files, jpeg, main, picture, save, write

WORKERS = ("1", "2", "3", "8", "32")
WINDOWS = ("1", "65536")
PLACES = ("sandboxed", "in-process")
STARTS = ("fresh", "resumed")
SIMD = ("simd", "no-simd")
SURROUNDINGS = ({"LC_ALL": "C", "TZ": "UTC"}, {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8"},
                {"LC_ALL": "POSIX", "TZ": "America/St_Johns"})
UMASKS = (0o022, 0o077, 0o000)


def source():
    """Photographs, drawings, masks, labels; odd sizes; a file that is no image."""
    for i in range(40):
        write(f"src/{'ab'[i % 2]}/{i:03}.jpg", jpeg(picture(120 + i, 91 + i % 7, i), quality=80 + i % 15))
        if i % 3 == 0:
            write(f"src/{'ab'[i % 2]}/{i:03}.txt", b"label %d\n" % i)
    for i in range(40, 52):
        save(f"src/b/{i:03}.png", picture(100 + i, 77, i, channels=3))
    write("src/a/broken.jpg", jpeg(picture(90, 90, 7))[:700])


def copied():
    """The same files made in another order, with other times."""
    names = [os.path.join(d, n) for d, _, ns in os.walk("src") for n in ns]
    random.Random(5).shuffle(names)
    for k, n in enumerate(names):
        to = n.replace("src", "copy/src", 1)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(n, to)
        os.utime(to, (1000 + k, 1000 + k))


def fragments(out):
    try:
        return [n for n in os.listdir(out + "/.slimset") if n.startswith("frag-")]
    except OSError:
        return []


def once(program, out, workers, window, place, start, simd, surroundings, umask, top):
    shutil.rmtree(out, ignore_errors=True)
    words = [program, "pack", os.path.join(top, "src"), "-o", out, "--resize", "64", "-j", workers, "--window", window]
    if place == "in-process":
        words.append("--in-process")
    env = {"PATH": os.environ["PATH"], **surroundings}
    if simd == "no-simd":  # handed on to the workers by the shim: theirs is an empty environment
        env.update(JSIMD_FORCENONE="1", LD_PRELOAD=SHIM, SHIM_WORKERS="1")
    if start == "resumed":
        p = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        while p.poll() is None and not fragments(out):
            time.sleep(0.001)
        p.kill()
        p.wait()
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, umask=umask, timeout=200)
    assert p.returncode == 3, (words, p.returncode, p.stderr)
    return files(out), p.stderr


def rows():
    every = list(itertools.product(WORKERS, WINDOWS, PLACES, STARTS, SIMD))
    if not LONG:
        rng = random.Random(3)
        every = [(w, WINDOWS[i % 2], PLACES[i // 2 % 2], STARTS[(i + i // 2) % 2], SIMD[i // 3 % 2]) for i, w in enumerate(WORKERS * 2)]
        rng.shuffle(every)
    for i, row in enumerate(every):
        yield *row, SURROUNDINGS[i % 3], UMASKS[i // 2 % 3], ("", "copy")[i // 3 % 2]


def portable():
    """The program without its own SIMD code."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "portable")
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    env = dict(os.environ, CFLAGS="-D'__builtin_cpu_supports(x)=0'")
    subprocess.run(["meson", "setup", folder, root, "--buildtype=release"], check=True, stdout=subprocess.DEVNULL, env=env)
    subprocess.run(["ninja", "-C", folder, "slimset"], check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, "slimset")


def test_one_hash():
    source()
    copied()
    golden = None
    seen = {}
    n = resumed = 0
    for row in rows():
        got, err = once(SLIMSET, "out", *row)
        golden = golden or got
        assert got == golden, (row, sorted(k for k in got.keys() | golden.keys() if got.get(k) != golden.get(k)))
        n += 1
        resumed += b"were finished before" in err
        for k, value in enumerate(row):
            seen.setdefault(k, set()).add(str(value))
    assert [len(seen[k]) for k in range(8)] == [5, 2, 2, 2, 2, 3, 3, 2], seen
    assert resumed > 0
    print(f"{n} runs, {resumed} of them resumed: one hash")
    if LONG:
        got, _ = once(portable(), "out", "2", "65536", "sandboxed", "fresh", "no-simd", SURROUNDINGS[0], 0o022, "")
        assert got == golden, "without SIMD"
        print("and without any SIMD code")


build_shim()
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
