# SPDX-License-Identifier: Apache-2.0
"""What the packing tests share: running the program, inputs made here, and "ok"/"FAIL" lines."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import traceback

import numpy as np
from PIL import Image

SLIMSET = os.environ.get("SLIMSET") or os.path.join(os.path.dirname(__file__), "../../build/slimset")
IN_PROCESS = os.environ.get("SLIMSET_IN_PROCESS")
failed = 0


def run(*args, code=None, stdin=None, env=None, cwd=None):
    """Runs slimset; code: the exit status that is expected (None: any)."""
    p = subprocess.run([SLIMSET, *map(os.fsdecode, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, input=stdin,
                       cwd=cwd, env=dict(os.environ, **(env or {})), timeout=280)
    p.out = p.stdout.decode("utf-8", "surrogateescape")
    p.err = p.stderr.decode("utf-8", "surrogateescape")
    if code is not None and p.returncode != code:
        raise AssertionError(f"slimset {' '.join(map(repr, args))}\n  exit {p.returncode}, should be {code}\n{p.out[-1500:]}\n{p.err[-1500:]}")
    return p


def pack(*args, code=0, **k):
    return run("pack", *args, *(["--in-process"] if IN_PROCESS else []), code=code, **k)


def ls(out, *args):
    return [json.loads(line) for line in run("ls", out, "--json", *args, code=0).out.splitlines()]


def rejects(out):
    return {r["path"]: r for r in ls(out, "--rejects")}


def files(folder):
    """{relative path: sha256} of all files but .slimset."""
    found = {}
    for d, dirs, names in os.walk(folder):
        if ".slimset" in dirs:
            dirs.remove(".slimset")
        for n in names:
            p = os.path.join(d, n)
            with open(p, "rb") as f:
                found[os.path.relpath(p, folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


def members(out):
    """{member name: bytes} of all shards, as Python's tarfile reads them."""
    found = {}
    for name in sorted(os.listdir(out)):
        if name.endswith(".tar"):
            with tarfile.open(os.path.join(out, name)) as t:
                for m in t:
                    assert m.name not in found, m.name
                    found[m.name] = t.extractfile(m).read()
    return found


def picture(w, h, seed=0, channels=3):
    """Photo-like: smooth colour fields with fine noise; deterministic."""
    r = np.random.default_rng(seed)
    small = r.integers(0, 256, (6, 8, channels)).astype(np.uint8)
    im = Image.fromarray(small if channels > 1 else small[..., 0])
    a = np.asarray(im.resize((w, h), Image.BICUBIC)).astype(np.int16)
    return np.clip(a + r.integers(-6, 7, a.shape), 0, 255).astype(np.uint8)


def save(path, array, **k):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    Image.fromarray(array).save(path, **k)


def jpeg(array, **k):
    b = io.BytesIO()
    Image.fromarray(array).save(b, "JPEG", **{"quality": 90, **k})
    return b.getvalue()


def write(path, data):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def photos(folder, n, w=160, h=120, classes=("cat", "dog"), seed=0):
    """n JPEGs in class folders."""
    for i in range(n):
        write(f"{folder}/{classes[i % len(classes)]}/{i:04d}.jpg", jpeg(picture(w, h, seed + i)))


def psnr(a, b):
    d = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    m = (d * d).mean()
    return 99.0 if m == 0 else 10 * np.log10(255 * 255 / m)


def main(tests):
    """Runs each test function in an empty folder."""
    global failed
    only = sys.argv[1:]
    for t in tests:
        if only and t.__name__ not in only:
            continue
        folder = tempfile.mkdtemp(prefix="slimset-test-")
        before = os.getcwd()
        os.chdir(folder)
        try:
            t()
            print("ok", t.__name__, flush=True)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print("FAIL", t.__name__, flush=True)
            failed += 1
        finally:
            os.chdir(before)
            subprocess.run(["chmod", "-R", "u+rwX", folder], check=False)
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)
