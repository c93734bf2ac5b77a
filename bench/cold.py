#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow media: how much of the waiting does the program hide?

Mounts bench/slowfs.c over a folder: each read takes 5 ms, many may wait side by side, as on a network share or
a busy disk. Compares reading one file after the other (as cat or a simple script does) with packing; each
starts with a cold cache (a fresh mount). Needs /dev/fuse.
"""
import os
import shutil
import subprocess
import sys
import time

import common
import corpus


class Mount:
    def __init__(self, build, root, where, ms):
        self.command = [os.path.join(os.path.abspath(build), "slowfs"), where, "-o", "ro,max_threads=64"]
        self.env = {**os.environ, "SLOWFS_ROOT": root, "SLOWFS_MS": str(ms)}
        self.where = where

    def __enter__(self):
        os.makedirs(self.where, exist_ok=True)
        if not os.access(self.command[0], os.X_OK):
            sys.exit("build/slowfs is not there: libfuse3-dev was missing when it was configured")
        result = subprocess.run(self.command, env=self.env, capture_output=True, text=True)
        for _ in range(100):
            if os.path.ismount(self.where):
                return self.where
            time.sleep(0.05)
        sys.exit("cannot mount (is /dev/fuse there and allowed?): " + result.stderr.strip())

    def __exit__(self, *exc):
        for command in (["fusermount3", "-u", self.where], ["umount", "-l", self.where]):
            if subprocess.run(command, capture_output=True).returncode == 0:
                return


def read_in_turn(folder):
    total = 0
    for path in common.folder_files(folder):
        with open(path, "rb", buffering=0) as f:
            while data := f.read(1 << 20):
                total += len(data)
    return total


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--count", type=int, default=800, help="pictures of the mixed corpus")
    parser.add_argument("--ms", type=int, default=5, help="of each read")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    folder = corpus.make(args.build, "mixed", args.count)
    scratch = common.work_folder(args.build, "cold")
    where, out = os.path.join(scratch, "mount"), os.path.join(scratch, "out")
    options = ("--resize", "short:256", "-j", str(args.jobs))

    read_in_turn(folder)  # the disk below is warm: only the wait that slowfs adds is measured
    warm = common.must(common.pack(args.build, folder, out, *options), "slimset pack").wall_s
    with Mount(args.build, folder, where, args.ms) as slow:
        start = time.monotonic()
        read_in_turn(slow)
        in_turn = time.monotonic() - start
    with Mount(args.build, folder, where, args.ms) as slow:
        cold = common.must(common.pack(args.build, slow, out, *options), "slimset pack").wall_s
    shutil.rmtree(out, ignore_errors=True)
    n = args.count
    print(common.table(["what", "seconds", "files/s"], [
        [f"read in turn, {args.ms} ms a read", f"{in_turn:.2f}", f"{n / in_turn:.0f}"],
        [f"slimset pack, {args.ms} ms a read", f"{cold:.2f}", f"{n / cold:.0f}"],
        ["slimset pack, warm", f"{warm:.2f}", f"{n / warm:.0f}"]]))
    print(f"\npacking is {in_turn / cold:.1f} times as fast as reading in turn, and takes {cold / warm:.2f} of the warm time")


if __name__ == "__main__":
    main()
