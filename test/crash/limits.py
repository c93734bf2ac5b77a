# SPDX-License-Identifier: Apache-2.0
# time-limit: 300 s
"""Real limits: a small file system (bytes, inodes), few descriptors, small files only, little memory, an output that
becomes read-only. Each run ends with 0 and golden, or with 1 and a message that says what was wrong and how to go on;
no input is blamed; without the limit the same command gives golden."""
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time

from _crash import GOES_ON, LONG, SLIMSET, build_shim, files, leave, lies_in, main, memory_group, photos, rejects, run

WORDS = ["pack", "src", "-o", "out", "--resize", "100", "-j", "2"]


def golden_of(words):
    shutil.rmtree("out", ignore_errors=True)
    run(*words, code=0)
    golden = files("out")
    shutil.rmtree("out")
    return golden


def limited(words, *limits):
    def set_limits():
        for what, n in limits:
            resource.setrlimit(what, (n, n))
    p = subprocess.run([SLIMSET, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=set_limits, timeout=100)
    p.err = p.stderr.decode("utf-8", "replace")
    return p


def stopped_well(p, golden, *words):
    """Exit 0 and golden, or 1 with one of the words and the way on. Says which."""
    assert p.returncode in (0, 1), (p.returncode, p.err)
    if p.returncode == 0:
        assert files("out") == golden
        return "finished"
    assert GOES_ON in p.err and any(w in p.err for w in words), p.err
    return "stopped: " + p.err.splitlines()[-2]


def goes_on(words, golden):
    run(*words, code=0)
    assert files("out") == golden and os.listdir("out/.slimset") == ["stat"]


@contextlib.contextmanager
def small_disk(options):
    """A tmpfs in ./out; None where it may not be mounted."""
    os.mkdir("out")
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "out"], stderr=subprocess.DEVNULL).returncode != 0:
        yield None
        return
    try:
        yield lambda o: subprocess.run(["mount", "-o", "remount," + o, "out"], stderr=subprocess.DEVNULL).returncode
    finally:
        subprocess.run(["umount", "-l", "out"])


def test_bytes_run_out():
    photos("src", 60, 300, 200)
    golden = golden_of(WORDS)
    for size in ("4k", "60k", "200k", "300k", "360k", "420k", "480k") if LONG else ("60k", "300k", "400k"):
        with small_disk(f"size={size}") as remount:
            if remount is None:
                print("skip test_bytes_run_out: a tmpfs may not be mounted here")
                return
            print(size, stopped_well(run(*WORDS), golden, "No space"))
            remount("size=50m")
            goes_on(WORDS, golden)
        os.rmdir("out")


def test_inodes_run_out():
    photos("src", 60, 300, 200)
    golden = golden_of(WORDS)
    for n in range(2, 60, 3) if LONG else (2, 12, 40):
        with small_disk(f"nr_inodes={n}") as remount:
            if remount is None:
                print("skip test_inodes_run_out: a tmpfs may not be mounted here")
                return
            print(n, "inodes:", stopped_well(run(*WORDS), golden, "No space"))
            remount("nr_inodes=100000")
            goes_on(WORDS, golden)
        os.rmdir("out")


def test_output_becomes_read_only():
    photos("src", 60, 300, 200)
    golden = golden_of(WORDS)
    with small_disk("size=50m") as remount:
        if remount is None:
            print("skip test_output_becomes_read_only: a tmpfs may not be mounted here")
            return
        done = 0
        for attempt in range(40):
            subprocess.run("rm -rf out/* out/.slimset", shell=True)
            p = subprocess.Popen([SLIMSET, *WORDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while p.poll() is None and not os.path.exists("out/.slimset/stage"):
                time.sleep(0.0005)
            time.sleep(0.004 * (attempt % 10))
            p.send_signal(signal.SIGSTOP)
            refused = remount("ro")  # as long as a file is open for writing
            p.send_signal(signal.SIGCONT)
            out, err = p.communicate()
            if refused or p.returncode == 0:
                continue
            assert p.returncode == 1 and b"Read-only file system" in err and GOES_ON.encode() in err, (p.returncode, err)
            assert not os.path.exists("out/slimset.index") or lies_in(golden, "out")
            remount("rw")
            goes_on(WORDS, golden)
            done += 1
            if done == 3:
                break
        print("became read-only", done, "times")
        assert done > 0
    os.rmdir("out")


def test_few_descriptors():
    photos("src", 60, 300, 200)
    golden = golden_of(WORDS)
    p = limited(WORDS, (resource.RLIMIT_NOFILE, 32))
    assert p.returncode == 0, p.err
    assert files("out") == golden
    for n, jobs in ((24, 2), (20, 1), (16, 1), (12, 1), (8, 1), (32, 8), (64, 32)):
        shutil.rmtree("out", ignore_errors=True)
        words = [*WORDS[:-1], str(jobs)]
        print(n, "descriptors,", jobs, "workers:", stopped_well(limited(words, (resource.RLIMIT_NOFILE, n)), golden, "Too many open files"))
        goes_on(WORDS, golden)


def test_files_may_not_be_large():
    photos("src", 30, 300, 200)
    for words in (WORDS, [*WORDS[:-2], "--in-process"]):
        golden = golden_of(words)
        for n in (100, 3000, 20000):
            shutil.rmtree("out", ignore_errors=True)
            print(n, "bytes a file:", stopped_well(limited(words, (resource.RLIMIT_FSIZE, n)), golden, "File too large"))
            goes_on(words, golden)


def test_little_address_space():
    photos("src", 10, 300, 200)
    for words in (WORDS, [*WORDS[:-2], "--in-process"]):
        golden = golden_of(words)
        for mb in (8000, 400, 100, 40, 20) if words is WORDS else (60, 30, 24, 20, 16):
            shutil.rmtree("out", ignore_errors=True)
            p = limited(words, (resource.RLIMIT_AS, mb << 20))
            if p.returncode == 127:  # the dynamic linker had no room
                continue
            print(mb, "MB:", stopped_well(p, golden, "memory"))
            goes_on(words, golden)


def test_killed_for_memory():
    """The kernel kills a worker, or the coordinator, when the group is out of memory."""
    photos("src", 6, 3000, 2500)
    golden = golden_of(WORDS)
    seen = []
    for mb in (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40) if LONG else (4, 8):
        group = memory_group(mb << 20)
        if group is None:
            print("skip test_killed_for_memory: no memory cgroup can be made here")
            return
        try:
            def join():
                with open(f"{group}/cgroup.procs", "w") as f:
                    f.write(str(os.getpid()))
            shutil.rmtree("out", ignore_errors=True)
            p = subprocess.run([SLIMSET, *WORDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=join, timeout=200)
            p.err = p.stderr.decode("utf-8", "replace")
        finally:
            leave(group)
        if p.returncode == -signal.SIGKILL:
            seen.append(f"{mb} MB: coordinator killed")
        else:
            seen.append(f"{mb} MB: " + stopped_well(p, golden, "killed or ran out of memory", "memory"))
        goes_on(WORDS, golden)
        assert rejects("out") == {}
    print("\n".join(seen))


build_shim()
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
