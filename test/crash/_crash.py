# SPDX-License-Identifier: Apache-2.0
"""What the crash tests share: the shim, a small source, what is golden, and how a run may end."""
import atexit
import errno
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pack"))
from _frame import IN_PROCESS, SLIMSET, files, jpeg, ls, main, photos, picture, rejects, run, save, write  # noqa: E402,F401

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = bool(os.environ.get("SLIMSET_TORTURE"))  # ./dev torture
GOES_ON = "the same command again continues"


def in_memory():
    """Thousands of small runs: in memory where there is room, since nothing here needs a real disk."""
    try:
        if shutil.disk_usage("/dev/shm").free < 500 << 20:
            return
        for name in os.listdir("/dev/shm"):
            m = re.fullmatch(r"slimset-crash-(\d+)", name)
            if m and not os.path.exists("/proc/" + m.group(1)):  # of a test that was killed
                shutil.rmtree("/dev/shm/" + name, ignore_errors=True)
        folder = f"/dev/shm/slimset-crash-{os.getpid()}"
        os.mkdir(folder)
    except OSError:
        return
    atexit.register(shutil.rmtree, folder, True)
    tempfile.tempdir = folder


SHIM = os.path.join(os.environ.get("TMPDIR", "/tmp"), "shim.so")

def build_shim():
    in_memory()
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", SHIM,
                    os.path.join(HERE, "shim.c"), "-ldl"], check=True)


class Run:
    """One run of slimset under the shim."""

    def __init__(self, *args, cls=None, fault=0, at=0, times=1, path="", workers=False, log=None, sync=False, cwd=None):
        env = dict(os.environ, LD_PRELOAD=SHIM, SHIM_STATE=os.path.abspath("shim.state"), SHIM_AT=str(at),
                   SHIM_TIMES=str(times), SHIM_PATH=path, SHIM_FAULT=str(fault))
        if cls:
            env["SHIM_CLASS"] = cls
        if workers:
            env["SHIM_WORKERS"] = "1"
        if log:
            env["SHIM_LOG"] = os.path.abspath(log)
            open(log, "wb").close()
        if not sync:
            env["SHIM_NOSYNC"] = "1"
        with open("shim.state", "wb") as f:
            f.write(bytes(64))
        p = subprocess.Popen([SLIMSET, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd)
        try:
            out, err = p.communicate(timeout=60)
            self.code = p.returncode
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            self.code = "hangs"
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")
        with open("shim.state", "rb") as f:
            self.calls, self.hits, self.synced_again = struct.unpack("<3Q", f.read(24))


def lies_in(dataset, out):
    """Is every file of the dataset in out, with its bytes? (Others may be there as well.)"""
    now = files(out) if os.path.isdir(out) else {}
    return all(now.get(name) == digest for name, digest in dataset.items())


def temporaries(out):
    return sorted(set(os.listdir(out + "/.slimset")) - {"stat"})


def mend(words, golden, out="out", what=""):
    """The same command without a fault: golden, and nothing of the work is left."""
    r = Run(*words)
    assert r.code == 0, (what, "rerun", r.code, r.err)
    now = files(out)
    assert now == golden, (what, "rerun is not golden", sorted(n for n in now.keys() | golden.keys() if now.get(n) != golden.get(n)))
    assert words[0] != "pack" or temporaries(out) == [], (what, temporaries(out))
    return r


def name_of(fault):
    return {0: "short", -1: "kill", -2: "kill after"}.get(fault) or errno.errorcode[fault]


def memory_group(limit):
    """A memory cgroup below our own with this limit; None where there is none."""
    try:
        with open("/proc/self/cgroup") as f:
            lines = [line.strip().split(":", 2) for line in f]
        v1 = [path for _, names, path in lines if names == "memory"]
        v2 = [path for _, names, path in lines if names == ""]
        if v1 and os.path.isdir("/sys/fs/cgroup/memory"):
            top, file = "/sys/fs/cgroup/memory" + v1[0], "memory.limit_in_bytes"
        else:
            top, file = "/sys/fs/cgroup" + v2[0], "memory.max"
        group = f"{top}/slimset-test-{os.getpid()}"
        os.mkdir(group)
    except (OSError, IndexError):
        return None
    try:
        with open(f"{group}/{file}", "w") as f:
            f.write(str(limit))
        try:  # no swap in its stead
            with open(f"{group}/" + ("memory.memsw.limit_in_bytes" if file != "memory.max" else "memory.swap.max"), "w") as f:
                f.write(str(limit) if file != "memory.max" else "0")
        except OSError:
            pass
    except OSError:
        os.rmdir(group)
        return None
    return group


def leave(group):
    for _ in range(100):
        try:
            os.rmdir(group)
            return
        except OSError:
            time.sleep(0.05)
