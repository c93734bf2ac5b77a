# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: starting a child and knowing what it used, the machine in words."""
import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where the programs are")
    return parser


def work_folder(build, *names):
    path = os.path.join(os.path.abspath(build), "bench", *names)
    os.makedirs(path, exist_ok=True)
    return path


class Used:
    """What one child used, all of its descendants included."""

    def __init__(self, wall_s, cpu_s, rss_bytes, status, output):
        self.wall_s, self.cpu_s, self.rss_bytes = wall_s, cpu_s, rss_bytes
        self.status, self.output = status, output


def run(command, env=None, watch=None, log=None):
    """Runs a command to its end. watch(pid) is called every 50 ms while it runs. Both output streams go
    to `log`, a file, whose text is in .output afterwards."""
    log = log or os.path.join(work_folder(os.path.join(ROOT, "build")), "child.log")
    full = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    with open(log, "wb") as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=full)
        pid = 0
        while watch and not pid:
            watch(child.pid)
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if not pid:
                time.sleep(0.05)
        if not watch:
            pid, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    with open(log, errors="replace") as f:
        output = f.read()
    return Used(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, child.returncode, output)


def must(used, what):
    if used.status != 0:
        sys.exit(f"{what}: exit status {used.status}\n{used.output[-2000:]}")
    return used


def slimset(build):
    path = os.path.join(os.path.abspath(build), "slimset")
    if not os.access(path, os.X_OK):
        sys.exit("build/slimset is not there: ./dev build")
    return path


def pack(build, source, out, *options, **kw):
    """A fresh pack of source into out, which is removed first."""
    shutil.rmtree(out, ignore_errors=True)
    return run([slimset(build), "pack", source, "-o", out, "--json", *options], **kw)


def packed_files(out):
    """(stem, bytes) of every picture in the shards; the stems of the corpora are unique."""
    for name in sorted(os.listdir(out)):
        if not name.endswith(".tar"):
            continue
        with tarfile.open(os.path.join(out, name)) as tar:
            for member in tar:
                stem, _, ext = os.path.basename(member.name).partition(".")
                if ext in ("jpg", "jpeg", "png"):
                    yield stem, tar.extractfile(member).read()


def folder_files(folder):
    found = []
    for where, _, names in os.walk(folder):
        found += [os.path.join(where, n) for n in names]
    return sorted(found)


def folder_bytes(folder):
    return sum(os.path.getsize(p) for p in folder_files(folder))


def median(values):
    return statistics.median(values)


def _first(command, pattern):
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "not there"
    m = re.search(pattern, text.stdout + text.stderr)
    return m.group(1) if m else "?"


def machine():
    """Lines about the machine and the versions of all that is compared."""
    cpu = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    system = "?"
    with open("/etc/os-release") as f:
        m = re.search(r'^PRETTY_NAME="(.*)"', f.read(), re.M)
        system = m.group(1) if m else "?"
    lines = [
        f"machine: {cpu}, {os.cpu_count()} CPUs, {platform.machine()}",
        f"system: {system}, Linux {platform.release()}, {_first(['cc', '--version'], '(.*)')}",
        f"vipsthumbnail: libvips {_first(['vipsthumbnail', '--vips-version'], r'libvips ([0-9.]+)')}",
    ]
    packages = _first(["dpkg-query", "-W", "-f", "${Package} ${Version}; ", "libjpeg62-turbo", "libisal2",
                       "zlib1g", "python3-pil", "python3-opencv"], "(.*); ")
    return lines + [f"packages: {packages}"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(" --- " for _ in head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def save_results(title, text):
    """Puts a section "# title" into bench/RESULTS.md, in the place of the one of that title."""
    path = os.path.join(ROOT, "bench", "RESULTS.md")
    sections = {}
    if os.path.exists(path):
        with open(path) as f:
            for part in re.split(r"^(?=# )", f.read(), flags=re.M):
                if part.strip():
                    sections[part.split("\n", 1)[0][2:]] = part.strip() + "\n"
    sections[title] = f"# {title}\n\n{text.strip()}\n"
    with open(path, "w") as f:
        f.write("\n".join(sections.values()))
