# SPDX-License-Identifier: Apache-2.0
# time-limit: 300 s
"""Very many small files, some huge ones, one in twenty hostile, in a memory cgroup of 1 GB: memory stays flat, and an
account of its own finds every file packed, rejected or left out, each once, and each as its kind deserves.

`./dev test`: 2,000 small and 5 huge. `./dev soak [SMALL [HUGE]]`: 200,000 and 100. Few of the files differ in content;
the others are hard links, so that making them takes seconds."""
import io
import json
import os
import shutil
import subprocess
import threading
import time
import zlib

import numpy as np
from PIL import Image

from _crash import SLIMSET, jpeg, leave, main, memory_group, picture, write

SMALL, HUGE = (int(n) for n in os.environ.get("SLIMSET_SOAK", "2000 5").split())
LIMIT = 1 << 30
FLAT = 8.0  # MB for each 100,000 samples


def png_bomb(n=30000):
    """A PNG of n x n gray pixels whose rows are all zero: megabytes of pixels for a few bytes each."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    head = n.to_bytes(4, "big") + n.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(n * 100), 9)) + chunk(b"IEND", b"")


def huge_files(n):
    """24-megapixel photographs and a PNG of 20."""
    found = []
    for i in range(min(n, 4)):
        a = np.tile(picture(1000, 800, 9000 + i), (5, 6 - (i == 3), 1))
        b = io.BytesIO()
        Image.fromarray(a).save(b, "PNG" if i == 3 else "JPEG", quality=85, compress_level=1)
        found.append(("png" if i == 3 else "jpg", b.getvalue()))
    return found


def good_files():
    found = []
    for i in range(300):
        found.append(("jpg", jpeg(picture(40 + i % 61, 40 + i % 37, i), quality=70 + i % 25)))
    for i in range(60):
        b = io.BytesIO()
        Image.fromarray(picture(48, 32, 1000 + i)).save(b, "PNG")
        found.append(("png", b.getvalue()))
    return found


def hostile_files():
    """(extension, bytes): every one must be rejected."""
    whole = jpeg(picture(200, 150, 5))
    found = [("jpg", whole[:n]) for n in range(20, len(whole) - 2, len(whole) // 40)]
    found += [("jpg", b""), ("jpg", b"<!DOCTYPE html><html>404</html>"), ("png", b"\x89PNG\r\n\x1a\n"), ("png", png_bomb()),
              ("jpg", bytes(range(256)) * 40), ("jpg", b"\xff\xd8\xff\xe0" + b"\xff" * 5000), ("png", b"PK\3\4" + bytes(100)),
              ("jpg", b"%PDF-1.4\n"), ("jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
              ("jpg", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n")]
    return found


def make(top):
    """The tree; returns {path: "good", "hostile" or "junk"}."""
    kinds = {}
    pools = {"good": good_files(), "hostile": hostile_files(), "junk": [("", b"\0\0\0\1Bud1")],
             "huge": huge_files(HUGE)}
    for pool, items in pools.items():
        for i, (_, data) in enumerate(items):
            write(f"{top}/pool/{pool}{i}", data)
    for i in range(SMALL + HUGE):
        folder = f"src/{i // 1000:03}"
        if i % 1000 == 0 or not os.path.isdir(f"{top}/{folder}"):
            os.makedirs(f"{top}/{folder}", exist_ok=True)
        kind = "huge" if HUGE and i % ((SMALL + HUGE) // HUGE) == 7 else "hostile" if i % 20 == 3 else "good"
        if i % 997 == 5:
            name, pick, kind = ".DS_Store", 0, "junk"
        else:
            pick = i * 7919 % len(pools[kind])
            name = f"{i:06}." + pools[kind][pick][0]
        link = f"{top}/pool/{kind}{pick}"
        if os.stat(link).st_nlink > 60000:
            shutil.copyfile(link, link + "+")
            os.replace(link + "+", link)
        path = f"{folder}/{name}"
        if path[4:] not in kinds:
            os.link(link, f"{top}/{path}")
            kinds[path[4:]] = "good" if kind == "huge" else kind
    return kinds


class Watch(threading.Thread):
    """Proportional memory of the run's processes over time, and how many samples were done."""

    def __init__(self, pid, out):
        super().__init__(daemon=True)
        self.pid, self.out, self.rows, self.over = pid, out, [], False

    @staticmethod
    def memory(pid):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                rows = dict(line.split(":") for line in f if ":" in line and "-" not in line.split(":")[0])
            return int(rows["Pss"].split()[0]) - int(rows["Pss_File"].split()[0])
        except (OSError, KeyError, ValueError):
            return 0

    def run(self):
        while not self.over:
            try:
                with open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
                    pids = f.read().split()
                staged = sum(n.startswith("frag-") for n in os.listdir(self.out + "/.slimset"))
            except OSError:
                pids, staged = [], 0
            mine = self.memory(self.pid)
            self.rows.append((staged, mine / 1024, sum(map(self.memory, pids)) / 1024))
            time.sleep(0.2 if SMALL > 10000 else 0.02)


def slope(points):
    """Least squares: y for each x."""
    n = len(points)
    mx, my = sum(p[0] for p in points) / n, sum(p[1] for p in points) / n
    below = sum((p[0] - mx) ** 2 for p in points)
    return sum((p[0] - mx) * (p[1] - my) for p in points) / below if below else 0.0


def rows_of(out, *extra):
    p = subprocess.Popen([SLIMSET, "ls", out, "--json", *extra], stdout=subprocess.PIPE)
    for line in p.stdout:
        yield json.loads(line)
    assert p.wait() == 0


def account(kinds, out):
    """Every file once: packed, rejected or left out, as its kind deserves."""
    where = {}
    samples = 0
    for row in rows_of(out):
        samples += 1
        for f in row["fields"]:
            if f.get("path"):
                where.setdefault(f["path"], []).append("good")
    for row in rows_of(out, "--rejects"):
        where.setdefault(row["path"], []).append("hostile")
    for row in rows_of(out, "--left-out"):
        where.setdefault(row["path"], []).append("junk")
    assert where.keys() == kinds.keys(), sorted(where.keys() ^ kinds.keys())[:20]
    wrong = [(p, kinds[p], w) for p, w in where.items() if w != [kinds[p]]]
    assert not wrong, wrong[:20]
    counts = {k: sum(v == k for v in kinds.values()) for k in ("good", "hostile", "junk")}
    assert samples == counts["good"], (samples, counts)
    return counts


def test_soak():
    begin = time.monotonic()
    kinds = make(".")
    made = time.monotonic() - begin
    group = memory_group(LIMIT)
    print(f"{len(kinds)} files made in {made:.1f} s; memory", "limited to 1 GB by a cgroup" if group else "not limited: no cgroup can be made here")

    def join():
        if group:
            with open(f"{group}/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))

    begin = time.monotonic()
    p = subprocess.Popen([SLIMSET, "pack", "src", "-o", "out", "--resize", "48", "--shard-size", "2M", "-j", "2", "-q"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, preexec_fn=join)
    watch = Watch(p.pid, "out")
    watch.start()
    out, err = p.communicate()
    watch.over = True
    watch.join()
    seconds = time.monotonic() - begin
    if group:
        leave(group)
    assert p.returncode == 3, (p.returncode, err[-2000:])
    counts = account(kinds, "out")
    print(f"{counts['good']} packed + {counts['hostile']} rejected + {counts['junk']} left out = {len(kinds)} files, in {seconds:.1f} s")
    shards = max(1, max(r[0] for r in watch.rows))
    begun = [r for r in watch.rows if r[0] > shards // 10]  # from when all buffers have been used
    peak = [max((r[k] for r in watch.rows), default=0) for k in (1, 2)]
    assert peak[0] + peak[1] < LIMIT >> 20
    print(f"at most {peak[0]:.0f} MB in the coordinator, {peak[1]:.0f} MB in the workers")
    if SMALL >= 50000:
        per = 100000 * shards / len(kinds)
        for k, who in ((1, "coordinator"), (2, "workers")):
            s = slope([(r[0] / per, r[k]) for r in begun])
            print(f"{who}: {s:+.2f} MB for each 100,000 samples ({len(begun)} samples of memory)")
            assert s < FLAT, (who, s)
    p = subprocess.run([SLIMSET, "verify", "out"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert p.returncode == 0, p.stdout


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
