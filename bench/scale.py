#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a sample cost the same in a large set as in a small one, and what does the coordinator remember?

Packs 10,000 and 100,000 small JPEGs; shows time and CPU a sample, and the largest resident size of the
coordinating process (not of its workers).
"""
import io
import os
import re
import shutil

import numpy as np
from PIL import Image

import common

VARIANTS = 64  # different pictures; the files repeat them


def make(folder, count):
    if os.path.exists(folder + ".made"):
        return
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(5)
    pictures = []
    for _ in range(VARIANTS):
        coarse = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8))
        data = io.BytesIO()
        coarse.resize((64, 48), Image.Resampling.BICUBIC).save(data, "JPEG", quality=90)
        pictures.append(data.getvalue())
    for i in range(count):
        if i % 1000 == 0:
            where = os.path.join(folder, f"class{i // 1000 % 20:02d}", f"part{i // 1000:03d}")
            os.makedirs(where)
        with open(os.path.join(where, f"s{i:07d}.jpg"), "wb") as f:
            f.write(pictures[i % VARIANTS])
    with open(folder + ".made", "w"):
        pass


class Watch:
    """The largest resident size that a process has had."""

    def __init__(self):
        self.peak_bytes = 0

    def __call__(self, pid):
        try:
            with open(f"/proc/{pid}/status") as f:
                m = re.search(r"^VmHWM:\s+(\d+) kB", f.read(), re.M)
        except OSError:
            return
        if m:
            self.peak_bytes = max(self.peak_bytes, int(m.group(1)) * 1024)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--counts", type=int, nargs=2, default=[10000, 100000])
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    scratch = common.work_folder(args.build, "scale")
    rows, per_sample, peaks = [], [], []
    for count in args.counts:
        folder = os.path.join(scratch, f"small-{count}")
        make(folder, count)
        watch = Watch()
        used = common.pack(args.build, folder, os.path.join(scratch, "out"), "--resize", "long:32", "-j", str(args.jobs),
                           watch=watch)
        common.must(used, "slimset pack")
        per_sample.append(used.wall_s / count)
        peaks.append(watch.peak_bytes)
        rows.append([f"{count:,}", f"{used.wall_s:.2f}", f"{used.wall_s / count * 1e6:.1f}",
                     f"{used.cpu_s / count * 1e6:.1f}", f"{watch.peak_bytes / 1e6:.1f}"])
    print(common.table(["samples", "seconds", "us a sample", "CPU us a sample", "coordinator's peak MB"], rows))
    more = args.counts[1] - args.counts[0]
    print(f"\na sample in the large set costs {per_sample[1] / per_sample[0]:.2f} of one in the small set;"
          f" each sample adds {(peaks[1] - peaks[0]) / more:.0f} bytes to the coordinator")


if __name__ == "__main__":
    main()
