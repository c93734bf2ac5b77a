#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays: size and speed of `slimset pack` and its reader against what else keeps arrays, on one core.

Five families, made from the photographs of the corpora (bench/corpus.py): normalised float32 photographs, uint16 as a
CT gives it, float32 spectrograms (rows of photographs taken for sound), uint8 photographs, int64 label maps; and float64
arrays of whole numbers for --narrow. All is CPU time, of all processes. Packing is told as the slope between a quarter of the
arrays and all of them: what a run costs whatever its size (workers, the probe) is in the column `whole run`. Sizes are those of the
files, ours with tar headers and padding. Reading is from the page
cache into memory. Prints a Markdown table; --save puts it into bench/RESULTS.md.
"""
import ctypes
import glob
import os
import resource
import shutil
import subprocess
import sys
import time

import h5py
import numcodecs
import numpy as np
from PIL import Image

import common
import corpus

numcodecs.blosc.use_threads = False
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


# --- the arrays ---------------------------------------------------------------------------------------------------


def photo(pictures, i):
    return Image.open(pictures[i % len(pictures)]).convert("RGB")


def float_photo(pictures, i, rng):
    a = np.asarray(photo(pictures, i).resize((224, 224), Image.LANCZOS), dtype=np.float32) / 255
    return np.ascontiguousarray(((a - MEAN) / STD).transpose(2, 0, 1))


def ct(pictures, i, rng):
    """12 bits with a smooth picture and a detector's noise; nothing outside of a circle."""
    a = np.asarray(photo(pictures, i).convert("L").resize((512, 512), Image.LANCZOS), dtype=np.float64)
    y, x = np.mgrid[-1:1:512j, -1:1:512j]
    return np.where(x * x + y * y < 0.9, np.clip(a * 12 + rng.normal(0, 12, a.shape) + 100, 0, 4095), 0).astype(np.uint16)


def spectrogram(pictures, i, rng):
    wave = np.asarray(photo(pictures, i).convert("L"), dtype=np.float32).ravel()[:1020 * 256 + 510]
    wave = wave - wave.mean()
    frames = np.lib.stride_tricks.sliding_window_view(wave, 510)[::256][:1020] * np.hanning(510).astype(np.float32)
    return np.ascontiguousarray(np.log1p(np.abs(np.fft.rfft(frames, axis=1))).astype(np.float32).T)


def uint8_photo(pictures, i, rng):
    return np.asarray(photo(pictures, i).resize((384, 384), Image.LANCZOS))


def labels(pictures, i, rng):
    small = photo(pictures, i).convert("L").resize((12, 9), Image.BOX).resize((480, 360), Image.BICUBIC)
    return (np.asarray(small) // 12).astype(np.int64)


def whole_floats(pictures, i, rng):
    return np.asarray(photo(pictures, i).convert("L").resize((256, 256)), dtype=np.float64)


FAMILIES = {"float32 photographs (3, 224, 224)": float_photo, "uint16, CT-like (512, 512)": ct,
            "float32 spectrograms (256, 1020)": spectrogram, "uint8 photographs (384, 384, 3)": uint8_photo,
            "int64 label maps (360, 480)": labels, "float64 whole numbers (256, 256)": whole_floats}


def make(make_one, pictures, n, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("all", "quarter"):
        os.makedirs(os.path.join(folder, part))
    arrays = [make_one(pictures, i, np.random.default_rng(i)) for i in range(n)]
    for i, a in enumerate(arrays):
        np.save(f"{folder}/all/{i:05d}.npy", a)
        if i % 4 == 0:
            os.link(f"{folder}/all/{i:05d}.npy", f"{folder}/quarter/{i:05d}.npy")
    return arrays


# --- ways ---------------------------------------------------------------------------------------------------------------


def cpu(fn):
    """Result and CPU seconds of this process and its children."""
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime
    start = used()
    made = fn()
    return made, used() - start


def packed(args, folder, out, options):
    """(bytes of the fields, CPU of the slope by share of the arrays, CPU of the whole run)."""
    spent = {}
    for part in ("quarter", "all"):
        used = common.pack(args.build, os.path.join(folder, part), out, "-j", "1", *options)
        spent[part] = common.must(used, "slimset pack").cpu_s
    return (spent["all"] - spent["quarter"]) / 0.75, spent["all"]


class Array(ctypes.Structure):
    """struct slimset_array."""
    _fields_ = [("dtype", ctypes.c_char * 16), ("descr", ctypes.c_char * 8192),
                ("fortran", ctypes.c_bool), ("dims", ctypes.c_uint32),
                ("shape", ctypes.c_uint64 * 32), ("item_bytes", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64)]


class Error(ctypes.Structure):
    _fields_ = [("numbers", ctypes.c_int * 3), ("text", ctypes.c_char * 512)]


def read_packed(args, out, arrays):
    """All arrays through libslimset into one buffer; the first is compared. CPU seconds."""
    lib = ctypes.CDLL(os.path.join(os.path.abspath(args.build), "libslimset.so"))
    reader, err, a = ctypes.c_void_p(), Error(), Array()
    size = max(x.nbytes for x in arrays)
    buf = np.empty(size, dtype=np.uint8)
    p = buf.ctypes.data_as(ctypes.c_void_p)
    lib.slimset_reader_array.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p,
                                         ctypes.c_size_t, ctypes.c_void_p]
    lib.slimset_reader_close.argtypes = [ctypes.c_void_p]
    if lib.slimset_reader_open(os.fsencode(out), ctypes.byref(reader), ctypes.byref(err)) != 0:
        sys.exit(f"{out}: {err.text}")

    def one(i):
        if lib.slimset_reader_array(reader, i, 0, ctypes.byref(a), p, size, ctypes.byref(err)) != 0:
            sys.exit(f"{out}: sample {i}: {err.text}")

    def all_of_them():
        for i in range(len(arrays)):
            one(i)
    one(0)
    got = buf[:a.bytes].tobytes()
    if not any(got == x.tobytes() for x in arrays):
        sys.exit(f"{out}: not what was packed")
    spent = cpu(all_of_them)[1]
    lib.slimset_reader_close(reader)
    return spent


def ours(args, folder, arrays, *options):
    out = os.path.join(folder, "out")
    slope, whole = packed(args, folder, out, options)
    return sum(os.path.getsize(p) for p in glob.glob(f"{out}/*.tar")), slope, read_packed(args, out, arrays), whole


def npz(args, folder, arrays):
    where = os.path.join(folder, "npz")
    os.makedirs(where, exist_ok=True)
    _, write = cpu(lambda: [np.savez_compressed(f"{where}/{i:05d}.npz", a) for i, a in enumerate(arrays)])
    _, read = cpu(lambda: [np.load(f"{where}/{i:05d}.npz")["arr_0"].shape for i in range(len(arrays))])
    return common.folder_bytes(where), write, read, None


def zstd(args, folder, arrays):
    where = os.path.join(folder, "zst")
    os.makedirs(where, exist_ok=True)
    sources = sorted(glob.glob(f"{folder}/all/*.npy"))
    _, write = cpu(lambda: subprocess.run(["zstd", "-q", "-f", "-3", "-T1", "--output-dir-flat", where, *sources], check=True))
    done = sorted(glob.glob(f"{where}/*.zst"))
    _, read = cpu(lambda: subprocess.run(["zstd", "-q", "-d", "-c", *done], check=True, stdout=subprocess.DEVNULL))
    return common.folder_bytes(where), write, read, None


def blosc(args, folder, arrays):
    codec = numcodecs.Blosc(cname="zstd", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)
    made, write = cpu(lambda: [codec.encode(a) for a in arrays])
    _, read = cpu(lambda: [len(codec.decode(b)) for b in made])
    return sum(map(len, made)), write, read, None


def hdf5(args, folder, arrays):
    path = os.path.join(folder, "a.h5")

    def write_all():
        with h5py.File(path, "w") as f:
            for i, a in enumerate(arrays):
                f.create_dataset(str(i), data=a, chunks=True, compression="gzip", compression_opts=4, shuffle=True)

    def read_all():
        with h5py.File(path, "r") as f:
            return [f[str(i)][()].shape for i in range(len(arrays))]
    _, write = cpu(write_all)
    return os.path.getsize(path), write, cpu(read_all)[1], None


WAYS = {"np.savez_compressed": npz, "zstd -3 (CLI)": zstd, "numcodecs Blosc zstd 5 shuffle": blosc, "HDF5 gzip 4 + shuffle": hdf5}
OURS = {"slimset": [], "slimset, level max": ["--array-codec", "auto:max"], "slimset, level fast": ["--array-codec", "auto:fast"],
        "slimset --narrow": ["--narrow"]}


def measure(args, what, make_one, pictures):
    folder = common.work_folder(args.build, "arrays")
    arrays = make(make_one, pictures, args.count, folder)
    raw = sum(a.nbytes for a in arrays)
    rows, results = [], {}
    ways = {name: lambda w=way: w(args, folder, arrays) for name, way in WAYS.items()}
    for name, options in OURS.items():
        if "narrow" not in name or arrays[0].dtype.itemsize == 8:
            ways[name] = lambda o=options: ours(args, folder, arrays, *o)
    for name, way in ways.items():
        rounds = [way() for _ in range(args.rounds)]
        size, write, read = (common.median([r[k] for r in rounds]) for k in range(3))
        whole = common.median([r[3] for r in rounds]) if rounds[0][3] else None
        results[name] = size, write, read
        base = results["np.savez_compressed"]
        rows.append((what, name, f"{raw / size:.2f}", f"{base[0] / size:.2f}", f"{raw / write / 1e6:.0f}", f"{base[1] / write:.1f}",
                     f"{raw / read / 1e6:.0f}", f"{base[2] / read:.1f}", f"{raw / whole / 1e6:.0f}" if whole else ""))
        print(" | ".join(rows[-1]), flush=True)
    shutil.rmtree(folder)
    return raw, rows, {n: r[0] for n, r in results.items()}


def zstd_version():
    return subprocess.run(["zstd", "--version"], capture_output=True, text=True).stdout.strip().strip("* ")


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--count", type=int, default=128, help="arrays of each family")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pictures = corpus.pictures(corpus.make(args.build, "png1024", 48))
    rows, sums, total = [], {}, 0
    for what, make_one in FAMILIES.items():
        if args.only not in what:
            continue
        raw, more, sizes = measure(args, what, make_one, pictures)
        rows += more
        total += raw
        for name, size in sizes.items():
            sums[name] = sums.get(name, 0) + size
    head = ("arrays", "with", "ratio", "of npz's", "write MB/s", "x npz", "read MB/s", "x npz", "whole run MB/s")
    text = (f"`./dev bench arrays --count {args.count}`, {time.strftime('%Y-%m-%d')}, one core, CPU time, median of {args.rounds} rounds. "
            "`whole run` has the start of the workers and the probe in it, `write` is what a further array costs.\n\n" +
            common.table(head, rows) + "\n\nAll families together, ratio: " +
            ", ".join(f"{n} {total / s:.2f}" for n, s in sums.items() if "narrow" not in n) + ".\n\n" +
            "\n".join(f"- {line}" for line in common.machine() + [f"numpy {np.__version__}, numcodecs {numcodecs.__version__}, "
                                                                  f"h5py {h5py.__version__}, {zstd_version()}"]))
    print(text)
    if args.save:
        common.save_results("Arrays", text)


if __name__ == "__main__":
    main()
