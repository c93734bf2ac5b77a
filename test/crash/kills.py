# SPDX-License-Identifier: Apache-2.0
# time-limit: 500 s
"""kill -9 at random moments, of the coordinator, of one worker, of all; SIGINT and SIGTERM, once and twice.

KILLS of each kind under ./dev test, 200 in all and more under ./dev torture. The moments come from a fixed seed."""
import os
import random
import re
import shutil
import signal
import subprocess
import time

from _crash import LONG, SLIMSET, build_shim, files, lies_in, main, photos, run, temporaries

KILLS = 70 if LONG else 5
IN_FLIGHT = 4  # shards that may be made again: the one being written and three that wait for their sync
WORDS = ["pack", "src", "-o", "out", "--resize", "200", "-j", "2"]


def start():
    return subprocess.Popen([SLIMSET, *WORDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def workers(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"  # one that nobody has reaped yet is dead
    except OSError:
        return False


def golden_and_time():
    photos("src", 160, 400, 300)
    shutil.rmtree("out", ignore_errors=True)
    begin = time.monotonic()
    run(*WORDS, code=0)
    seconds = time.monotonic() - begin
    golden = files("out")
    shutil.rmtree("out")
    return golden, seconds


def ended(folder):
    """How many tar files there have their end: one that is being written is not counted."""
    found = 0
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(f"{folder}/{name}", "rb") as f:
            found += f.read()[-1024:] == bytes(1024)
    return found


def fragments():
    names = os.listdir("out/.slimset") if os.path.isdir("out/.slimset") else []
    return sum(name.startswith("frag-") for name in names)


def test_kill_of_coordinator_and_all():
    golden, seconds = golden_and_time()
    rng = random.Random(11)
    kills = finished = resumed = most = 0
    while kills < 2 * KILLS:
        shutil.rmtree("out", ignore_errors=True)
        done = False
        while not done:
            p = start()
            time.sleep(rng.uniform(0, 1.05 * seconds))
            done = p.poll() is not None
            if not done:
                everybody = [p.pid] + (workers(p.pid) if kills % 2 else [])
                p.send_signal(signal.SIGSTOP)  # what there is shall be what is counted
                time.sleep(0.005)
                staged, named = ended("out/.slimset/stage"), fragments()
                publishing = os.path.exists("out/.slimset/publish") or os.path.exists("out/slimset.index")
                for pid in everybody:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                kills += 1
            _, err = p.communicate()
            assert p.returncode in (0, -9), err
            if done:
                finished += 1
                break
            if os.path.exists("out/slimset.index"):
                assert lies_in(golden, "out")
            if not publishing:
                assert staged - named <= IN_FLIGHT, (staged, named)
                most = max(most, staged - named)
                if named > 1:  # they are kept, but for one that was being written
                    q = start()
                    _, err = q.communicate()
                    kept = int((re.search(rb"(\d+) shards were finished before", err) or [0, 0])[1])
                    assert q.returncode == 0 and named - 1 <= kept <= named, (named, kept, err)
                    resumed += 1
                    done = True
        assert files("out") == golden and temporaries("out") == []
    assert resumed > 0
    print(f"{kills} kills, {resumed} runs went on with finished shards, {finished} ended first; at most {most} shards were made again")


def test_kill_of_a_worker():
    golden, seconds = golden_and_time()
    rng = random.Random(12)
    kills = 0
    while kills < KILLS:
        shutil.rmtree("out", ignore_errors=True)
        p = start()
        time.sleep(rng.uniform(0, seconds))
        there = workers(p.pid)
        hit = False
        if there:
            try:
                os.kill(rng.choice(there), signal.SIGKILL)
                hit = True
            except ProcessLookupError:
                pass
        _, err = p.communicate()
        kills += hit
        assert p.returncode == 0, (p.returncode, err)  # it is replaced, and nothing is said against an input
        assert files("out") == golden
    print(f"{kills} workers killed")


def interrupted(number, seconds, rng):
    """One signal: ends within 2 s with 128 + number, and the run goes on later."""
    p = start()
    time.sleep(rng.uniform(0.02, 0.8 * seconds))
    begin = time.monotonic()
    p.send_signal(number)
    _, err = p.communicate()
    took = time.monotonic() - begin
    if p.returncode == 0:
        return None
    if p.returncode == -number:  # before there was a handler
        return None
    assert p.returncode == 128 + number, (p.returncode, err)
    assert took < 2.0, took
    assert b"the same command" in err, err
    return took


def test_signals():
    golden, seconds = golden_and_time()
    rng = random.Random(13)
    for number in (signal.SIGINT, signal.SIGTERM):
        slowest = n = 0
        while n < (25 if LONG else 4):
            shutil.rmtree("out", ignore_errors=True)
            took = interrupted(number, seconds, rng)
            if took is None:
                continue
            n += 1
            slowest = max(slowest, took)
            run(*WORDS, code=0)
            assert files("out") == golden and temporaries("out") == []
        print(f"{n} times {number.name}: at most {slowest:.3f} s")


def test_second_signal_leaves_at_once():
    golden, seconds = golden_and_time()
    rng = random.Random(14)
    n = 0
    while n < (25 if LONG else 4):
        shutil.rmtree("out", ignore_errors=True)
        p = start()
        time.sleep(rng.uniform(0.05, 0.6 * seconds))
        there = workers(p.pid)
        p.send_signal(signal.SIGSTOP)  # so that both come before it can end by the first
        p.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGTERM)  # another number: two of one kind would be one
        begin = time.monotonic()
        p.send_signal(signal.SIGCONT)
        p.communicate()
        took = time.monotonic() - begin
        if p.returncode in (0, -signal.SIGINT, -signal.SIGTERM):
            continue
        n += 1
        assert p.returncode in (130, 143), p.returncode
        assert took < 0.5, took
        for _ in range(200):
            there = [w for w in there if alive(w)]
            time.sleep(0.005 if there else 0)
        assert not there, "workers outlive the coordinator"
        run(*WORDS, code=0)
        assert files("out") == golden


build_shim()
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
