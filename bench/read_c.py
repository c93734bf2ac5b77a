#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reading through libslimset costs: opening, random fields, batches of pictures, preloading.

bench/read_c.c measures; this makes the datasets (build/bench/read_c) and the table. Exits non-zero where a figure
is worse than its limit. Wants a quiet machine.
"""
import os
import shutil
import subprocess
import sys

import common
import corpus


def ask(args, *words):
    """The numbers that read_c prints, by name."""
    p = subprocess.run([os.path.join(os.path.abspath(args.build), "read_c"), *map(str, words)], stdout=subprocess.PIPE)
    if p.returncode != 0:
        sys.exit(f"read_c {' '.join(map(str, words))}: exit status {p.returncode}")
    return {name: float(number) for name, number in (line.split() for line in p.stdout.decode().splitlines())}


def made(args, scratch, samples, field_bytes):
    folder = os.path.join(scratch, f"{samples}x{field_bytes}")
    if not os.path.exists(folder + ".made"):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        ask(args, "make", folder, samples, field_bytes)
        open(folder + ".made", "w").close()
    return folder


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--save", action="store_true", help="also write bench/RESULTS.md")
    args = parser.parse_args()
    scratch = common.work_folder(args.build, "read_c")
    opened = ask(args, "open", made(args, scratch, 1000000, 0))
    fields = made(args, scratch, 4000, 40960)
    read, attach = ask(args, "read", fields), ask(args, "attach", fields)
    pictures = os.path.join(scratch, "pictures")
    if not os.path.exists(os.path.join(pictures, "slimset.index")):
        common.must(common.pack(args.build, corpus.make(args.build, "jpg1024", 80), pictures, "--resize", "512"), "slimset pack")
    batch = ask(args, "batch", pictures, 224, 224)

    rows, missed = [], 0

    def row(what, value, limit, holds):
        nonlocal missed
        missed += not holds
        rows.append([what, value, limit, "yes" if holds else "**no**"])

    over = read["read_us"] - read["memcpy_us"]
    row(f"open {opened['samples']:,.0f} samples", f"{opened['open_ms']:.2f} ms", "below 20 ms", opened["open_ms"] < 20)
    row("... and find one by its key", f"{opened['open_and_find_ms']:.2f} ms", "", True)
    row("random `read` of 40 KB, checked, over memcpy", f"{over:.1f} us ({read['read_us']:.1f} - {read['memcpy_us']:.1f})",
        "at most 6 us", over <= 6)
    row("... not checked", f"{read['read_unverified_us'] - read['memcpy_us']:.1f} us", "", True)
    row("... preloaded, checked", f"{read['read_preloaded_us'] - read['memcpy_us']:.1f} us", "", True)
    row(f"preload {attach['preload_bytes'] / 1e6:.0f} MB", f"{attach['preload_s']:.2f} s", "", True)
    row("a second process attaches", f"{attach['attach_ms']:.2f} ms", "below 50 ms", attach["attach_ms"] < 50)
    gain = batch["batch_2_per_s"] / batch["batch_1_per_s"]
    share = batch["bare_cpu_ms"] / batch["batch_1_cpu_ms"]
    row("batch of 64 JPEGs 512 px to 224x224, 1 thread", f"{batch['batch_1_per_s']:.0f}/s", "", True)
    row("... 2 threads", f"{batch['batch_2_per_s']:.0f}/s, {gain:.2f} times", "at least 1.9 times", gain >= 1.9)
    row("... of libjpeg-turbo's plain decode at full size, CPU", f"{share:.2f} ({batch['bare_cpu_ms']:.3f} ms / {batch['batch_1_cpu_ms']:.3f} ms)",
        "at least 0.9", share >= 0.9)
    row("... `fast`, 1 thread", f"{batch['fast_1_per_s']:.0f}/s", "", True)
    text = "\n".join([*(f"- {line}" for line in common.machine()), "", common.table(["what", "measured", "figure", "holds"], rows), "",
                      "Medians of 9 rounds, everything in the page cache. The plain decode is libjpeg-turbo's own loop to RGB, from",
                      "memory, without resizing.", ""])
    print(text)
    if args.save:
        common.save_results("Reading from C", "Made by `./dev bench read_c --save`.\n\n" + text)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
