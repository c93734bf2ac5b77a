#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shards read by webdataset, which knows nothing of slimset: python examples/webdataset.py OUT"""
import glob
import sys

# This file has the name of the library: without its folder the library is found.
sys.path.pop(0)
import webdataset as wds  # noqa: E402

import slimset.wds  # noqa: E402


def main(out):
    urls = sorted(glob.glob(f"{out}/train-*.tar"))
    # slimset.wds decodes arrays that were stored as npy.zst or npy.blosc; the rest is webdataset's
    data = wds.WebDataset(urls, shardshuffle=100, seed=1).shuffle(1000).decode(slimset.wds, "rgb8").to_tuple("jpg", "cls")
    n, brightness = {}, {}
    for image, label in data:
        n[label] = n.get(label, 0) + 1
        brightness[label] = brightness.get(label, 0) + image.mean()
    for label in sorted(n):
        print(f"class {label}: {n[label]} images, mean {brightness[label] / n[label]:.0f}")


if __name__ == "__main__":
    main(sys.argv[1])
