#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is what comes out as good as what Pillow would have made?

1. PSNR against Pillow's Lanczos at the same size before encoding: our JPEG, and Pillow's own JPEG of
   that very picture at the same quality; on all pixels and on the outer two rows and columns.
2. Does chroma sit where it should? JPEGs whose Cb rises evenly from left to right (Cr from top to
   bottom) are packed at many ratios and odd sizes; the ramp must not have moved by 0.1 pixels.
3. Bytes, against Pillow's JPEG.
"""
import io
import os
import shutil
import sys

import numpy as np
from PIL import Image

import common
import corpus

SHIFT_LIMIT_PX = 0.1
# Ours may be this much below Pillow's own JPEG (mean over a corpus) before it counts as worse.
PSNR_LIMIT_DB = 0.3
RAMP_SIZES = ((500, 375), (501, 333), (1023, 767), (640, 481), (333, 500), (1024, 1024), (777, 1111))
RISE = 317.3  # levels over the whole width; no simple ratio to any size, so that rounding errors differ from row to row
RAMP_TARGETS = (512, 333, 257, 256, 255, 224, 100)


def psnr(a, b):
    mse = np.mean((a.astype(np.float64) - b) ** 2)
    return 99.0 if mse == 0 else 10 * np.log10(255 ** 2 / mse)


def outer(a, n=2):
    """The outer n rows and columns as one flat array."""
    keep = np.ones(a.shape[:2], bool)
    keep[n:-n, n:-n] = False
    return a[keep]


def compare(args, name, mode, files, folder, scratch):
    out = os.path.join(scratch, "out")
    common.must(common.pack(args.build, folder, out, "--resize", mode, "--quality", "90", "--codec", "jpeg",
                            "--reencode", "all"), "slimset pack")
    ours = dict(common.packed_files(out))
    rows, problems = [], []
    for path in files:
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem not in ours:
            problems.append(f"{name} {mode}: {stem} is not in the output")
            continue
        source = Image.open(path)
        got = Image.open(io.BytesIO(ours[stem]))
        want = (source if source.mode == "L" else source.convert("RGB")).resize(got.size, Image.Resampling.LANCZOS)
        if got.mode != want.mode:
            problems.append(f"{name} {mode}: {stem} is {got.mode}, should be {want.mode}")
            continue
        data = io.BytesIO()
        want.save(data, "JPEG", quality=90, subsampling=2, optimize=True)
        theirs = np.asarray(Image.open(data))
        reference, mine = np.asarray(want), np.asarray(got)
        rows.append((psnr(mine, reference), psnr(theirs, reference), psnr(outer(mine), outer(reference)),
                     psnr(outer(theirs), outer(reference)), len(ours[stem]) / len(data.getvalue())))
    if not rows:
        return None, problems
    mean, worst = np.mean(rows, axis=0), min(r[0] - r[1] for r in rows)
    if mean[0] < mean[1] - PSNR_LIMIT_DB or mean[2] < mean[3] - PSNR_LIMIT_DB:
        problems.append(f"{name} {mode}: worse than Pillow's own JPEG by more than {PSNR_LIMIT_DB} dB")
    return [f"{name} {mode}", len(rows), f"{mean[0]:.2f} / {mean[1]:.2f}", f"{mean[2]:.2f} / {mean[3]:.2f}",
            f"{worst:+.2f}", f"{mean[4]:.3f}"], problems


def ramp(n):
    """Rises evenly over the first half of n pixels and falls over the second."""
    at = (np.arange(n) + 0.5) / n
    return 48 + RISE * np.minimum(at, 1 - at)


def make_ramps(folder):
    """4:2:0 and 4:4:4 JPEGs of even luma whose Cb is a ramp in x and Cr a ramp in y."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for w, h in RAMP_SIZES:
        # A dither of fixed order keeps 8-bit steps from posing as a shift.
        dither = (np.add.outer(np.arange(h) * 7, np.arange(w) * 3) % 16 + 0.5) / 16
        planes = [np.full((h, w), 128.0), np.broadcast_to(ramp(w), (h, w)), np.broadcast_to(ramp(h)[:, None], (h, w))]
        im = Image.merge("YCbCr", [Image.fromarray(np.floor(p + dither).clip(0, 255).astype(np.uint8)) for p in planes])
        for subsampling in (0, 2):
            im.save(os.path.join(folder, f"r{w}x{h}s{subsampling}.jpg"), quality=100, subsampling=subsampling)


def ramp_shift(data):
    """Pixels by which Cb moved to the right and Cr down. A shift lowers the rising half and lifts the falling
    one; rounding moves both the same way, and so drops out of the difference."""
    im = Image.open(io.BytesIO(data))
    im.draft("YCbCr", im.size)
    a = np.asarray(im).astype(np.float64)
    found = []
    for plane, axis in ((a[..., 1], 0), (a[..., 2], 1)):
        line = plane.mean(axis=axis)
        n = len(line)
        off = line - ramp(n)
        margin = 6  # the filter's reach at the ends and at the top
        rising, falling = off[margin:n // 2 - margin], off[n - n // 2 + margin:n - margin]
        found.append(float(falling.mean() - rising.mean()) / 2 / (RISE / n))
    return found


def ramps(args, scratch):
    folder, out = os.path.join(scratch, "ramps"), os.path.join(scratch, "ramps.out")
    make_ramps(folder)
    most, where, problems, n = 0.0, "", [], 0
    for side in RAMP_TARGETS:
        for kind in ("long", "short"):
            common.must(common.pack(args.build, folder, out, "--resize", f"{kind}:{side}", "--quality", "100"),
                        "slimset pack")
            for stem, data in common.packed_files(out):
                dx, dy = ramp_shift(data)
                n += 1
                if max(abs(dx), abs(dy)) > most:
                    most, where = max(abs(dx), abs(dy)), f"{stem} {kind}:{side} ({dx:+.3f}, {dy:+.3f})"
    if most >= SHIFT_LIMIT_PX:
        problems.append(f"chroma moved by {most:.3f} pixels: {where}")
    return f"Chroma ramps: {n} pictures, largest shift {most:.3f} pixels ({where}); limit {SHIFT_LIMIT_PX}.", problems


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--count", type=int, default=80, help="pictures of each corpus")
    args = parser.parse_args()
    scratch = common.work_folder(args.build, "quality")
    rows, problems = [], []
    for name, modes in (("jpg1024", ("long:512", "long:333", "long:224")), ("png1024", ("long:512",)),
                        ("mixed", ("short:256", "long:257", "long:224"))):
        folder = corpus.make(args.build, name, args.count)
        for mode in modes:
            row, wrong = compare(args, name, mode, corpus.pictures(folder), folder, scratch)
            rows += [row] if row else []
            problems += wrong
    words, wrong = ramps(args, scratch)
    problems += wrong
    print(common.table(["corpus, mode", "pictures", "PSNR ours / Pillow's JPEG, dB", "outer 2 px", "worst difference",
                        "bytes, of Pillow's"], rows))
    print("\n" + words)
    for p in problems:
        print("PROBLEM " + p)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
