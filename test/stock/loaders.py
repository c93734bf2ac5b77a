# SPDX-License-Identifier: Apache-2.0
# time-limit: 600 s
"""Loaders as people have them, on what was packed: webdataset, Hugging Face datasets and PyTorch from PyPI, torchvision's
ImageFolder rule, NumPy, tarfile, GNU tar. None of them knows of slimset. Each hands out every sample once, with the bytes
that were packed and its class."""
import hashlib
import io
import json
import os
import subprocess

import numpy as np
from PIL import Image

from _frame import files, jpeg, ls, main, members, pack, photos, picture, psnr, python, run, save, write

WDS = """
import glob, hashlib, json, sys
import torch, webdataset as wds
urls = sorted(glob.glob(sys.argv[1] + "/*.tar"))
workers, shuffle, method = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
def item(s):
    return s["__key__"], hashlib.sha256(s["jpg"]).hexdigest(), int(s["cls"])
data = wds.WebDataset(urls, shardshuffle=100 if shuffle else False, seed=5, workersplitter=wds.split_by_worker)
data = (data.shuffle(50) if shuffle else data).map(item)
loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=method)
if __name__ == "__main__":
    print(json.dumps(list(loader)))
"""


def packed():
    photos("src", 80, 120, 90, classes=("ape", "bear", "cat"))
    pack("src", "-o", "out", "--resize", "64", "--shards", "8")
    got = members("out")
    return [[s["key"], hashlib.sha256(got[s["key"] + ".jpg"]).hexdigest(), s["class_number"]] for s in ls("out")]


def test_webdataset_in_order():
    assert python(WDS, "out" if (want := packed()) else "", 0, 0, "") == want


def test_webdataset_shuffled():
    want = packed()
    got = python(WDS, "out", 0, 1, "")
    assert got != want and sorted(got) == sorted(want)


def test_webdataset_workers():
    want = packed()
    for workers, method in ((1, ""), (2, "")):
        for shuffle in (0, 1):
            got = python(WDS, "out", workers, shuffle, method)
            assert sorted(got) == sorted(want), (workers, shuffle)
            if workers == 1 and not shuffle:
                assert got == want


DECODED = """
import glob, json, sys
import numpy as np, torch, webdataset as wds
urls = sorted(glob.glob(sys.argv[1] + "/*.tar"))
data = wds.WebDataset(urls, shardshuffle=False).decode("torchrgb8" if 0 else "rgb8").to_tuple("jpg", "cls")
out = []
for images, labels in torch.utils.data.DataLoader(data, batch_size=16):
    assert images.dtype == torch.uint8 and images.shape[1:] == (48, 64, 3), images.shape
    out += [[int(i.sum()), int(l)] for i, l in zip(images.long(), labels)]
print(json.dumps(out))
"""


def test_batches_of_pixels():
    packed()
    got = members("out")
    want = [[int(np.asarray(Image.open(io.BytesIO(got[s["key"] + ".jpg"]))).sum(dtype=np.int64)), s["class_number"]]
            for s in ls("out")]
    assert python(DECODED, "out") == want


HF = """
import glob, hashlib, io, json, sys
import datasets
datasets.disable_progress_bars()
where = {s: sorted(glob.glob(f"{sys.argv[1]}/{s}-*.tar")) for s in ("train", "val")}
streaming = bool(int(sys.argv[2]))
data = datasets.load_dataset("webdataset", data_files={"train": where["train"], "validation": where["val"]},
                             cache_dir=sys.argv[3], streaming=streaming)
out = {}
for split in ("train", "validation"):
    d = data[split]
    columns = sorted(d.features or [])
    d = d.cast_column("jpg", datasets.Image(decode=False)) if not streaming else d
    rows = []
    for r in d:
        image = r["jpg"] if not streaming else None
        if streaming:
            rows.append([r["__key__"], list(r["jpg"].size), int(r["cls"]), r["json"]])
        else:
            rows.append([r["__key__"], hashlib.sha256(image["bytes"]).hexdigest(), int(r["cls"]), r["json"]])
    out[split] = [columns, rows]
print(json.dumps(out))
"""


def test_hugging_face_datasets():
    for split, n, seed in (("train", 40, 0), ("val", 8, 300)):
        photos(f"src/{split}", n, 120, 90, seed=seed)
        for d in ("cat", "dog"):
            for name in os.listdir(f"src/{split}/{d}"):
                write(f"src/{split}/{d}/{name[:-4]}.json", json.dumps({"n": int(name[:4]), "s": "x"}).encode())
    pack("src", "-o", "out", "--resize", "64")
    got = members("out")
    offline = dict(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=os.path.abspath("hf"))
    rows = python(HF, "out", 0, "cache", **offline)
    streamed = python(HF, "out", 1, "cache", **offline)
    for split, name in (("train", "train"), ("val", "validation")):
        want = [[s["key"], hashlib.sha256(got[s["key"] + ".jpg"]).hexdigest(), s["class_number"],
                 json.loads(got[s["key"] + ".json"])] for s in ls("out") if s["split"] == split]
        columns, have = rows[name]
        assert columns == ["__key__", "__url__", "cls", "jpg", "json"], columns
        assert have == want, split
        assert streamed[name][1] == [[w[0], [64, 48], *w[2:]] for w in want]


def image_folder(root):
    """torchvision's DatasetFolder with IMG_EXTENSIONS, in its own steps: find_classes, then make_dataset."""
    extensions = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    assert classes, "couldn't find any class folder"
    instances, available = [], set()
    for number, name in enumerate(classes):
        for folder, _, names in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for n in sorted(names):
                if n.lower().endswith(extensions):
                    instances.append((os.path.join(folder, n), number))
                    available.add(name)
    assert available == set(classes), "a class without files"
    return classes, instances


def test_image_folder_on_a_tree():
    photos("src/train", 30, classes=("10", "9", "Ape"))
    for i in range(4):
        save(f"src/train/Ape/deep/{i}.png", picture(150, 100, 100 + i))
    pack("src", "-o", "tree", "--to", "tree", "--resize", "64")
    (was, before), (now, after) = image_folder("src/train"), image_folder("tree/train")
    assert was == now == ["10", "9", "Ape"]
    stem = lambda p: os.path.splitext(p.split("/", 1)[1])[0]
    assert [(stem(p), c) for p, c in before] == [(stem(p), c) for p, c in after]
    for (a, _), (b, _) in zip(before, after):
        want = Image.open(a).convert("RGB").resize(Image.open(b).size, Image.LANCZOS)
        assert psnr(want, Image.open(b).convert("RGB")) > 30, b


def test_gnu_tar():
    packed()
    os.mkdir("x")
    for name in sorted(n for n in os.listdir("out") if n.endswith(".tar")):
        p = subprocess.run(["tar", "-xvf", f"out/{name}", "-C", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert p.returncode == 0 and p.stderr == b"", p.stderr
    want = {k: hashlib.sha256(v).hexdigest() for k, v in members("out").items()}
    assert files("x") == want


NUMPY = """
import io, json, sys, tarfile
import numpy as np
out = {}
for name in sys.argv[1:]:
    with tarfile.open(name) as t:
        for m in t:
            if m.name.endswith(".npy"):
                a = np.load(io.BytesIO(t.extractfile(m).read()), allow_pickle=False)
                out[m.name] = [str(a.dtype), list(a.shape), int(a.sum(dtype=np.int64))]
print(json.dumps(out))
"""


def test_numpy_reads_raw_images():
    want = {}
    for i in range(12):
        a = picture(90, 60, i)
        save(f"src/{i:02d}.png", a)
        want[f"{i:02d}.npy"] = ["uint8", [60, 90, 3], int(a.sum(dtype=np.int64))]
    pack("src", "-o", "out", "--codec", "raw")
    assert python(NUMPY, *sorted(f"out/{n}" for n in os.listdir("out") if n.endswith(".tar"))) == want


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
