#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same files through other tools, one thread each: CPU time an image.

    vipsthumbnail   many files in one process, VIPS_CONCURRENCY=1
    pillow          open, LANCZOS, save: what most preparation scripts do
    opencv          imread, INTER_AREA, imencode: what img2dataset does

All write JPEG quality 90, 4:2:0, optimised Huffman tables, without metadata. Starting up (measured with
one tiny picture) is taken off, since it is paid once in a run. Rounds of all tools are interleaved, so
that a change in the machine's speed meets all of them; the median is shown.
"""
import io
import os
import shutil
import sys

import common
import corpus

TOOLS = ("vipsthumbnail", "pillow", "opencv")


def target(mode, w, h):
    """The output size of "long:N" or "short:N"; never larger than the source."""
    kind, n = mode.split(":")
    side = max(w, h) if kind == "long" else min(w, h)
    s = min(1.0, int(n) / side)
    return max(1, int(w * s + 0.5)), max(1, int(h * s + 0.5))


def work_pillow(files, mode, out):
    from PIL import Image
    for path in files:
        im = Image.open(path)
        if im.mode not in ("RGB", "L"):
            im = im.convert("RGB")
        im = im.resize(target(mode, *im.size), Image.Resampling.LANCZOS)
        data = io.BytesIO()
        im.save(data, "JPEG", quality=90, subsampling=2, optimize=True)
        out.write(data.getbuffer())


def work_opencv(files, mode, out):
    import cv2
    cv2.setNumThreads(1)
    settings = [cv2.IMWRITE_JPEG_QUALITY, 90, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    for path in files:
        im = cv2.imread(path, cv2.IMREAD_COLOR)
        im = cv2.resize(im, target(mode, im.shape[1], im.shape[0]), interpolation=cv2.INTER_AREA)
        out.write(cv2.imencode(".jpg", im, settings)[1].tobytes())


def read_list(path):
    with open(path) as f:
        return f.read().split("\n")[:-1]


def write_list(path, files):
    with open(path, "w") as f:
        f.writelines(p + "\n" for p in files)
    return path


def commands(tool, list_file, mode, out):
    """The command lines that do the job; more than one where the tool cannot say it in one."""
    if tool != "vipsthumbnail":
        return [[sys.executable, "-B", os.path.abspath(__file__), "--work", tool, mode, list_file, out]]
    from PIL import Image
    kind, n = mode.split(":")
    groups = {}
    for path in read_list(list_file):
        with Image.open(path) as im:
            w, h = im.size
        wide = w >= h
        # one side given leaves the other free
        size = f"{n}x{n}" if kind == "long" else f"x{n}" if wide else f"{n}x"
        groups.setdefault(size + ">", []).append(path)
    how = "[Q=90,optimize_coding,strip,subsample_mode=on]"
    return [["vipsthumbnail", "--size", size, "-o", f"{out}.d/%s.jpg{how}", *files]
            for size, files in sorted(groups.items())]


def measure(tool, list_file, mode, out):
    """(CPU seconds, wall seconds, bytes written)"""
    shutil.rmtree(out + ".d", ignore_errors=True)
    os.makedirs(out + ".d")
    cpu = wall = 0.0
    for command in commands(tool, list_file, mode, out):
        used = common.must(common.run(command, env={"VIPS_CONCURRENCY": "1"}), tool)
        cpu, wall = cpu + used.cpu_s, wall + used.wall_s
    size = common.folder_bytes(out + ".d") if tool == "vipsthumbnail" else os.path.getsize(out)
    return cpu, wall, size


def start_up(tool, scratch, mode):
    """CPU and wall seconds of one command on one tiny picture."""
    from PIL import Image
    tiny = os.path.join(scratch, "tiny.jpg")
    Image.new("RGB", (16, 16)).save(tiny)
    runs = [measure(tool, write_list(os.path.join(scratch, "tiny.list"), [tiny]), mode,
                    os.path.join(scratch, "tiny.out"))[:2] for _ in range(3)]
    return [common.median(v) for v in zip(*runs)]


def available():
    found = [t for t in TOOLS if t == "pillow"]
    if shutil.which("vipsthumbnail"):
        found.insert(0, "vipsthumbnail")
    try:
        import cv2  # noqa: F401
        found.append("opencv")
    except ImportError:
        print("peers: no OpenCV (python3-opencv)", file=sys.stderr)
    return found


def main():
    if sys.argv[1:2] == ["--work"]:
        tool, mode, list_file, out = sys.argv[2:6]
        with open(out, "wb") as f:
            {"pillow": work_pillow, "opencv": work_opencv}[tool](read_list(list_file), mode, f)
        return
    parser = common.arguments(__doc__)
    parser.add_argument("--mode", default="long:512")
    parser.add_argument("--corpus", default="jpg1024", choices=list(corpus.DEFAULTS))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    files = corpus.pictures(corpus.make(args.build, args.corpus, args.count))
    scratch = common.work_folder(args.build, "peers")
    list_file = write_list(os.path.join(scratch, "files.list"), files)
    print("\n".join(common.machine()))
    tools = available()
    starts = {t: start_up(t, scratch, args.mode) for t in tools}
    seen = {t: [] for t in tools}
    for _ in range(args.rounds):
        for t in tools:
            seen[t].append(measure(t, list_file, args.mode, os.path.join(scratch, t + ".out")))
    n = len(files)
    rows = []
    for t in tools:
        per_run = len(commands(t, list_file, args.mode, "x"))
        cpu = common.median(s[0] for s in seen[t]) - per_run * starts[t][0]
        rows.append([t, f"{cpu / n * 1e3:.2f}", f"{starts[t][0] * 1e3:.0f}", f"{seen[t][0][2] / n / 1000:.1f}"])
    print(common.table(["tool", "CPU ms an image", "start-up ms", "KB an image"], rows))


if __name__ == "__main__":
    main()
