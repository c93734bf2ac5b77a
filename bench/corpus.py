#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures that the benchmarks work on, from the photographs in Debian's wallpaper packages.

    jpg1024   1024x1024 cuts, JPEG quality 95, 4:2:0
    png1024   the same cuts as PNG, zlib level 6
    mixed     hundreds of geometries around 500x375, odd sides included, as a web-scraped set has
              them: JPEG quality 85 to 95, mostly 4:2:0, some 4:4:4, some gray

Picture i of a corpus depends on i and on the installed photographs only. Packages: plasma-workspace-wallpapers mate-backgrounds
gnome-backgrounds. The files lie in build/bench/corpus/NAME/CLASS/.
"""
import multiprocessing
import os
import shutil
import sys

import numpy as np
from PIL import Image

import common

Image.MAX_IMAGE_PIXELS = None
VERSION = 1  # raise when what is made changes: old corpora are then made again
CLASSES = ("birch", "coral", "delta", "ember", "fjord", "grove")
DEFAULTS = {"jpg1024": 240, "png1024": 160, "mixed": 800}
FOLDERS = ("/usr/share/wallpapers", "/usr/share/backgrounds")
# Gives the cuts the fine grain that photographs have and re-saved wallpapers have lost; without it
# they compress better than any camera's picture. Levels (standard deviation), chosen for the bytes per picture
# that such sets have: about 280 KB at 1024x1024 quality 95, about 80 KB at 500x375.
GRAIN = {"jpg1024": 1.8, "png1024": 1.8, "mixed": 4.0}


# Drawn wallpapers are flat: neighbours are equal in most places. Photographs stay below this share.
FLAT_SHARE = 0.6


def is_photograph(im):
    im.draft("RGB", (1024, 1024))
    small = np.asarray(im.convert("RGB").resize((512, 512)), dtype=np.int16)
    return float((np.abs(np.diff(small, axis=1)).max(axis=2) <= 1).mean()) < FLAT_SHARE


def photographs():
    """The large photographs of the packages, one of each (some are there in many sizes)."""
    best = {}
    for top in FOLDERS:
        for path in common.folder_files(top):
            if not path.lower().endswith((".jpg", ".jpeg", ".png")) or os.path.islink(path):
                continue
            with Image.open(path) as im:
                w, h = im.size
            folder = os.path.dirname(path)
            group = folder if "/contents/images" in folder else path.split("_")[0]
            if min(w, h) >= 1200 and best.get(group, (0, ""))[0] < w * h:
                best[group] = (w * h, path)
    chosen = []
    for _, path in best.values():
        with Image.open(path) as im:
            if is_photograph(im):
                chosen.append(path)
    if len(chosen) < 10:
        sys.exit("too few photographs: install plasma-workspace-wallpapers mate-backgrounds gnome-backgrounds")
    return sorted(chosen)


def cut(photo, rng, w, h, zoom, grain):
    """A w x h picture: a random part of the photograph, `zoom` times as large, scaled down. Prefers parts
    in which something is to be seen."""
    box_w, box_h = min(photo.width, round(w * zoom)), min(photo.height, round(h * zoom))
    chosen, most = None, -1.0
    for _ in range(6):
        x = int(rng.integers(0, photo.width - box_w + 1))
        y = int(rng.integers(0, photo.height - box_h + 1))
        box = (x, y, x + box_w, y + box_h)
        look = np.asarray(photo.resize((24, 24), Image.Resampling.BOX, box).convert("L"), dtype=np.float32)
        if look.std() > most:
            chosen, most = box, float(look.std())
        if most > 35:
            break
    im = photo.resize((w, h), Image.Resampling.LANCZOS, chosen)
    noise = rng.standard_normal((h, w, 3), dtype=np.float32) * grain
    return Image.fromarray(np.clip(np.asarray(im) + noise + 0.5, 0, 255).astype(np.uint8))


def mixed_size(rng):
    """Most scraped pictures have a longest side of 500; the other side follows the camera's aspect,
    less what somebody cropped."""
    long_side = 500 if rng.random() < 0.7 else int(rng.integers(256, 1000))
    aspect = rng.choice([4 / 3, 3 / 2, 1.0, 16 / 9, 5 / 4], p=[0.5, 0.27, 0.08, 0.08, 0.07])
    short_side = round(long_side / aspect)
    if rng.random() < 0.6:
        short_side += int(rng.integers(-40, 30))
    short_side = max(64, min(short_side, long_side))
    return (long_side, short_side) if rng.random() < 0.75 else (short_side, long_side)


def make_one(corpus, i, photo, folder):
    rng = np.random.default_rng([VERSION, 1 if corpus == "mixed" else 0, i])
    where = os.path.join(folder, CLASSES[i % len(CLASSES)])
    stem = os.path.join(where, f"p{i:06d}")
    if corpus == "mixed":
        im = cut(photo, rng, *mixed_size(rng), zoom=float(rng.uniform(1.0, 3.0)), grain=GRAIN[corpus])
        quality, subsampling = int(rng.integers(85, 96)), 2
        kind = rng.random()
        if kind < 0.03:
            im = im.convert("L")
        elif kind < 0.10:
            subsampling = 0
        im.save(stem + ".jpg", quality=quality, subsampling=subsampling)
    else:
        im = cut(photo, rng, 1024, 1024, zoom=float(rng.uniform(1.0, 1.15)), grain=GRAIN[corpus])
        if corpus == "png1024":
            im.save(stem + ".png", compress_level=6)
        else:
            im.save(stem + ".jpg", quality=95, subsampling=2)


def make_from_photo(job):
    corpus, path, numbers, folder = job
    with Image.open(path) as im:
        photo = im.convert("RGB")
    for i in numbers:
        make_one(corpus, i, photo, folder)


def make(build, corpus, count=None):
    """The folder of a corpus, made unless it is there."""
    count = count or DEFAULTS[corpus]
    folder = os.path.join(common.work_folder(build, "corpus"), f"{corpus}-{count}")
    stamp = folder + ".made" # beside it: the folder holds pictures only
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.readline() == f"version {VERSION}\n":
                return folder
    paths = photographs()
    print(f"making {count} pictures of {corpus} from {len(paths)} photographs", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    for name in CLASSES:
        os.makedirs(os.path.join(folder, name))
    jobs = [(corpus, path, list(range(k, count, len(paths))), folder) for k, path in enumerate(paths) if k < count]
    with multiprocessing.Pool(min(4, os.cpu_count() or 1)) as pool:
        pool.map(make_from_photo, jobs, chunksize=1)
    with open(stamp, "w") as f:
        f.write(f"version {VERSION}\n" + "\n".join(paths) + "\n")
    return folder


def pictures(folder):
    return common.folder_files(folder)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("name", nargs="*", help="which (default: all)")
    parser.add_argument("--count", type=int, help="pictures")
    args = parser.parse_args()
    for name in args.name or DEFAULTS:
        folder = make(args.build, name, args.count)
        files = pictures(folder)
        size = sum(os.path.getsize(p) for p in files)
        print(f"{folder}: {len(files)} pictures, {size / len(files) / 1000:.0f} KB each")


if __name__ == "__main__":
    main()
