#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dataset in memory once, for all processes of the machine: python examples/preload.py OUT"""
import multiprocessing
import sys
import time

import slimset


def work(out, batches):
    begin = time.perf_counter()
    data = slimset.open(out, preload="ram")  # attaches to the copy that is there
    attached = time.perf_counter() - begin
    pixels = sum(int(data.read_batch(numbers, size=(64, 64), fast=True).size) for numbers in batches)
    return attached, pixels


def main(out):
    with slimset.open(out, preload="ram") as data:  # the first one fills it
        numbers = list(range(len(data)))
        parts = [(out, [numbers[k::4][i:i + 8] for i in range(0, len(numbers[k::4]), 8)]) for k in range(4)]
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            for attached, pixels in pool.starmap(work, parts):
                print(f"attached in {attached * 1e3:.1f} ms, decoded {pixels} values")


if __name__ == "__main__":
    main(sys.argv[1])
