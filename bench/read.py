#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What training reads: PyTorch's DataLoader on a source tree, on the same pictures resized, and on the packed dataset.

All hand out the same thing: uint8 (3, 224, 224), a random crop, and the label. Pillow decodes the whole picture for that; slimset
decodes what the crop needs. Bytes are counted by /proc/PID/io with an empty page cache. Exits non-zero where a figure is
worse than its limit. Wants a quiet machine.
"""
import glob
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time

import common
import corpus

ROUNDS = 5
WORKERS = 2


# --- in a process of its own: one way of reading, measured ---------------------------------------------------------------

def crop_of(im):
    import numpy as np
    import torch
    x, y = random.randint(0, im.width - 224), random.randint(0, im.height - 224)
    return torch.from_numpy(np.asarray(im.convert("RGB"))[y:y + 224, x:x + 224].transpose(2, 0, 1).copy())


class Tree:
    """A folder a class, as ImageFolder reads it."""

    def __init__(self, root):
        classes = sorted(os.listdir(root))
        self.files = [(p, i) for i, c in enumerate(classes) for p in sorted(glob.glob(f"{root}/{c}/*"))]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        from PIL import Image
        with open(self.files[i][0], "rb") as f:
            return crop_of(Image.open(f)), self.files[i][1]


def loader(kind, path, workers):
    import torch
    if kind == "slimset":
        import slimset.torch
        data = slimset.torch.Dataset(path, decode="torchrgb8", crop=224)
    elif kind == "webdataset":
        import webdataset as wds
        from PIL import Image
        urls = sorted(glob.glob(f"{path}/*.tar"))
        data = wds.WebDataset(urls, shardshuffle=100, seed=1).shuffle(100).map(
            lambda s: (crop_of(Image.open(io.BytesIO(s["jpg"]))), int(s["cls"])))
        return torch.utils.data.DataLoader(data, batch_size=16, num_workers=workers, persistent_workers=workers > 0)
    else:
        data = Tree(path)
    return torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def read_bytes():
    with open("/proc/self/io") as f:
        return int(next(line for line in f if line.startswith("read_bytes")).split()[1])


def child(kind, path, what):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if what == "bytes":
        list(loader(kind, path, 0))[:0]  # code and caches of the libraries first
        for p in common.folder_files(path):
            fd = os.open(p, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        before = read_bytes()
        n = sum(len(y) for _, y in loader(kind, path, 0))
        return {"bytes": read_bytes() - before, "n": n}
    if what == "sample":
        import slimset
        data = slimset.open(path)
        numbers = [random.randrange(len(data)) for _ in range(20000)]
        best = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for i in numbers:
                data[i]["jpg"]
            best.append((time.perf_counter() - begin) / len(numbers) * 1e6)
        return {"us": common.median(best), "bytes": sum(len(data[i]["jpg"]) for i in numbers) / len(numbers)}
    if what == "batch":
        import numpy as np
        import slimset
        data = slimset.open(path)
        numbers = np.arange(64) % len(data)
        rates = {}
        for threads in (1, 2):
            times = []
            for _ in range(3 * ROUNDS):
                begin = time.perf_counter()
                data.read_batch(numbers, (224, 224), threads=threads)
                times.append(time.perf_counter() - begin)
            rates[str(threads)] = 64 / common.median(times)
        return rates
    ready = loader(kind, path, WORKERS)
    rates = []
    for _ in range(ROUNDS + 1):  # the first one starts the workers and warms the cache
        begin = time.perf_counter()
        n = sum(len(y) for _, y in ready)
        rates.append(n / (time.perf_counter() - begin))
    return {"rate": common.median(rates[1:]), "n": n}


def ask(kind, path, what):
    p = subprocess.run([sys.executable, "-W", "ignore", __file__, "--child", kind, path, what], stdout=subprocess.PIPE, text=True)
    if p.returncode != 0:
        sys.exit(f"{kind} {what}: exit status {p.returncode}")
    return json.loads(p.stdout.splitlines()[-1])


# --- the table ---------------------------------------------------------------------------------------------------------

def prepare(args, scratch, name, n):
    """(source tree, packed, the packed pictures as loose files)"""
    source = corpus.make(args.build, name, n)
    packed, loose = os.path.join(scratch, name), os.path.join(scratch, name + ".loose")
    common.must(common.pack(args.build, source, packed, "--resize", "512"), "slimset pack")
    shutil.rmtree(loose, ignore_errors=True)
    for shard in sorted(glob.glob(f"{packed}/*.tar")):
        with tarfile.open(shard) as t:
            for m in t:
                if m.name.endswith(".jpg"):
                    to = os.path.join(loose, m.name)
                    os.makedirs(os.path.dirname(to), exist_ok=True)
                    with open(to, "wb") as f:
                        f.write(t.extractfile(m).read())
    return source, packed, loose


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--save", action="store_true", help="also write bench/RESULTS.md")
    parser.add_argument("--images", type=int, default=240, help="of each corpus")
    args = parser.parse_args()
    scratch = common.work_folder(args.build, "read")
    rows, missed = [], 0

    def row(what, value, limit="", holds=True):
        nonlocal missed
        missed += not holds
        rows.append([what, value, limit, "yes" if holds else "**no**"])

    for name, text, least in (("jpg1024", "JPEG 1024", 5), ("png1024", "PNG 1024", 15)):
        source, packed, loose = prepare(args, scratch, name, args.images)
        was, now = ask("tree", source, "bytes"), ask("slimset", packed, "bytes")
        shards = sum(os.path.getsize(p) for p in glob.glob(f"{packed}/*.tar"))
        if was["bytes"] == 0 or now["bytes"] == 0:
            row(f"{text}: bytes from disk", "this file system counts none")
        else:
            ratio, files = was["bytes"] / now["bytes"], common.folder_bytes(source) / shards
            row(f"{text}: bytes from disk an epoch, source / packed",
                f"{was['bytes'] / 1e6:.1f} MB / {now['bytes'] / 1e6:.1f} MB = {ratio:.2f}; of the files {files:.2f}",
                "within 3 %", abs(ratio / files - 1) <= 0.03)
        ours = ask("slimset", packed, "rate")["rate"]
        row(f"{text}: slimset.torch, {WORKERS} workers", f"{ours:.0f}/s")
        for kind, path, words, limit in (("tree", source, "(a) source tree, Pillow", least), ("tree", loose, "(b) resized, loose, Pillow", 1.8),
                                         ("webdataset", packed, "(c) our tar, webdataset", 1.8)):
            other = ask(kind, path, "rate")["rate"]
            row(f"{text}: ... against {words}", f"{other:.0f}/s: {ours / other:.2f} times", f"at least {limit} times", ours / other >= limit)
    sample, batch = ask("slimset", os.path.join(scratch, "jpg1024"), "sample"), ask("slimset", os.path.join(scratch, "jpg1024"), "batch")
    row(f"`data[i][\"jpg\"]`, {sample['bytes'] / 1e3:.0f} KB", f"{sample['us']:.1f} us", "at most 8 us", sample["us"] <= 8)
    gain = batch["2"] / batch["1"]
    row("`read_batch` of 64 to 224x224", f"1 thread {batch['1']:.0f}/s, 2 threads {batch['2']:.0f}/s: {gain:.2f} times",
        "at least 1.9 times", gain >= 1.9)
    text = "\n".join([*(f"- {line}" for line in common.machine()), "", common.table(["what", "measured", "figure", "holds"], rows), "",
                      f"Medians of {ROUNDS} epochs, everything in the page cache but for the first row of each corpus.", ""])
    print(text)
    if args.save:
        common.save_results("What training reads", "Made by `./dev bench read --save`.\n\n" + text)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:5])))
    else:
        main()
