#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed comparison: the bare job (bench/floor.c), the whole program, other tools.

CPU time an image counts all processes of a tool. Other tools' start-up is taken off; the program's and
the yardstick's are not. Rounds of all are interleaved; medians are shown. Prints a Markdown table
and writes it to build/bench/RESULTS.md (with --save also to bench/RESULTS.md in the tree).
"""
import os
import re
import shlex
import shutil
import sys

import common
import corpus
import peers

HALF = "slimset pack -j 1, half of the pictures"
JOBS = (("jpg1024", "long:512"), ("png1024", "long:512"), ("mixed", "short:256"))


def measure_floor(args, list_file, mode, out):
    used = common.must(common.run([os.path.join(args.build, "floor"), mode, out, list_file]), "floor")
    return used.cpu_s, used.wall_s, int(re.search(r"^bytes (\d+)", used.output, re.M).group(1))


def measure_pack(args, folder, mode, out, jobs):
    used = common.pack(args.build, folder, out, "--resize", mode, "--quality", "90", "--codec", "jpeg", "-j", str(jobs))
    common.must(used, "slimset pack")
    return used.cpu_s, used.wall_s, sum(len(data) for _, data in common.packed_files(out))


def half_of(files, folder):
    """A folder with every second picture, to tell what a run costs from what a picture costs."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in files[::2]:
        where = os.path.join(folder, os.path.basename(os.path.dirname(path)))
        os.makedirs(where, exist_ok=True)
        os.link(path, os.path.join(where, os.path.basename(path)))
    return folder


def bench_job(args, name, mode, tools):
    """Rows of the table for one corpus: what, CPU ms, ratio to floor, images/s, KB an image."""
    folder = corpus.make(args.build, name, args.count)
    files = corpus.pictures(folder)
    scratch = common.work_folder(args.build, "run")
    list_file = peers.write_list(os.path.join(scratch, "files.list"), files)
    out = os.path.join(scratch, "out")

    ways = {"yardstick (floor)": lambda: measure_floor(args, list_file, mode, out)}
    for jobs in (1, 2):
        ways[f"slimset pack -j {jobs}"] = lambda jobs=jobs: measure_pack(args, folder, mode, out + ".packed", jobs)
    half = half_of(files, os.path.join(scratch, "half"))
    ways[HALF] = lambda: measure_pack(args, half, mode, out + ".packed", 1)
    less = {}
    for tool in tools:
        ways[tool] = lambda tool=tool: peers.measure(tool, list_file, mode, out)
        start = peers.start_up(tool, scratch, mode)
        runs = len(peers.commands(tool, list_file, mode, out))
        less[tool] = [runs * s for s in start]

    seen = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, measure in ways.items():
            seen[way].append(measure())
            print(f"{name} {mode} {way}: {seen[way][-1][0] / len(files) * 1e3:.2f} ms", file=sys.stderr)
    rows, n = [], len(files)
    floor = None
    halves = seen.pop(HALF)
    for way, runs in seen.items():
        cpu = common.median(r[0] for r in runs) - less.get(way, [0, 0])[0]
        wall = common.median(r[1] for r in runs) - less.get(way, [0, 0])[1]
        floor = floor or cpu
        rows.append([f"{name} {mode}", way, f"{cpu / n * 1e3:.2f}", f"{cpu / floor:.2f}", f"{n / wall:.0f}",
                     f"{runs[0][2] / n / 1000:.1f}"])
        if way == "slimset pack -j 1":
            more = (cpu - common.median(r[0] for r in halves)) / (n - len(files[::2]))
            rows.append([f"{name} {mode}", "... each further image", f"{more * 1e3:.2f}", f"{more / floor * n:.2f}", "", ""])
    return rows, f"{name}: {n} pictures, {common.folder_bytes(folder) / n / 1000:.0f} KB each"


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, help="pictures of each corpus")
    parser.add_argument("--only", choices=[j[0] for j in JOBS], help="one corpus")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--save", action="store_true", help="also write bench/RESULTS.md")
    args = parser.parse_args()
    common.slimset(args.build)
    tools = [] if args.no_peers else peers.available()
    rows, about = [], common.machine()
    for name, mode in JOBS:
        if args.only in (None, name):
            more, words = bench_job(args, name, mode, tools)
            rows += more
            about.append(words)
    text = "\n".join([
        "Made by `./dev bench run" + "".join(" " + shlex.quote(a) for a in sys.argv[3:]) + "`; "
        f"median of {args.rounds} interleaved rounds.", "",
        *[f"- {line}" for line in about], "",
        common.table(["corpus, mode", "tool", "CPU ms an image", "of the yardstick", "images/s", "KB an image out"], rows),
        "", "CPU time counts every process of a tool; images/s is wall time, of one thread for all but `-j 2`. \"Each",
        "further image\" is what the second half added: the cost without starting and probing (a fixed number of",
        "pictures, so it says little about a corpus of fewer than 150).", ""])
    print(text)
    with open(os.path.join(common.work_folder(args.build), "RESULTS.md"), "w") as f:
        f.write(text)
    if args.save:
        common.save_results("Speed", text)


if __name__ == "__main__":
    main()
