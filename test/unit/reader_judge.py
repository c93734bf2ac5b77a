#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reader's pixels against Pillow's, through reader_tool: whole pictures, crops, scales, sizes, batches.

A dataset is packed without changing its pictures, so Pillow opens the very bytes that the reader decodes.
"""
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../pack"))
import _frame  # noqa: E402

TOOL = sys.argv[1]
SEED = 7
rng = random.Random(SEED)
failed = 0


class Tool:
    def __init__(self, out):
        self.p = subprocess.Popen([TOOL, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        self.p.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.p.stdin.flush()
        line = self.p.stdout.readline().decode()
        if not line.startswith("ok "):
            raise ValueError(line.strip() or "the tool died")
        numbers = line.split()[1:]
        return numbers, self.p.stdout.read(int(numbers[-1]))

    def decode(self, i, field, channels=3, layout=0, scale=1, min_w=0, min_h=0, crop=(0, 0, 0, 0), stride=0):
        (w, h, c, bits, _), data = self.ask("decode", i, field, channels, layout, scale, min_w, min_h, *crop, stride)
        w, h, c = int(w), int(h), int(c)
        a = np.frombuffer(data, np.uint16 if bits == "16" else np.uint8)
        if stride:
            return a.reshape(h, -1)[:, :w * c].reshape(h, w, c)
        return a.reshape((c, h, w) if layout else (h, w, c))

    def resize(self, i, field, w, h, fit=0, channels=3, layout=0, fast=0, nearest=0, box=(0, 0, 0, 0)):
        _, data = self.ask("resize", i, field, w, h, fit, channels, layout, fast, nearest, *box)
        return np.frombuffer(data, np.uint8).reshape((channels, h, w) if layout else (h, w, channels))


def photo(w, h, mode="RGB"):
    """Smooth and sharp parts, made from the seed."""
    r = np.random.default_rng(rng.getrandbits(32))
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([(np.sin(x / (3 + 5 * k) + k) + np.cos(y / (4 + 3 * k))) * 60 + 128 + r.normal(0, 12, (h, w))
                  for k in range(4)], 2)
    a[h // 3:h // 2, w // 4:w // 2] = r.integers(0, 256, 4)
    a = np.clip(a, 0, 255).astype(np.uint8)
    return {"RGB": lambda: Image.fromarray(a[:, :, :3]), "L": lambda: Image.fromarray(a[:, :, 0]),
            "CMYK": lambda: Image.fromarray(a, "CMYK"), "RGBA": lambda: Image.fromarray(a, "RGBA"),
            "LA": lambda: Image.fromarray(a[:, :, :2], "LA"),
            "P": lambda: Image.fromarray(a[:, :, :3]).quantize(50),
            "1": lambda: Image.fromarray(a[:, :, 0]).convert("1"),
            "I;16": lambda: Image.fromarray((a[:, :, 0].astype(np.uint16) * 251))}[mode]()


def make(source):
    def save(name, im, **k):
        im.save(os.path.join(source, name), **k)
    sizes = [(640, 480), (333, 251), (17, 9), (8, 200), (1, 1), (129, 65)]
    for n, (w, h) in enumerate(sizes):
        for sub, name in ((0, "444"), (1, "422"), (2, "420")):
            save(f"j{name}_{n}.jpg", photo(w, h), subsampling=sub, quality=rng.choice([50, 90, 97]))
        save(f"jprog_{n}.jpg", photo(w, h), progressive=True, quality=85)
        save(f"jgray_{n}.jpg", photo(w, h, "L"), quality=85)
    save("jcmyk.jpg", photo(200, 100, "CMYK"), quality=90)
    for mode in ("RGB", "L", "RGBA", "LA", "P", "1", "I;16"):
        save(f"p{mode.replace(';', '')}.png", photo(211, 93, mode))
    small = photo(50, 40, "P")
    small.info["transparency"] = 3
    save("ptrns.png", small, transparency=3)
    # What Pillow does not write: interlaced, 2 and 4 bits, 16-bit RGB: from PNM by other programs is no
    # reader's business here; png_judge.py has them.


def close(got, want, most, what):
    if got.shape != want.shape:
        raise AssertionError(f"{what}: {got.shape}, Pillow has {want.shape}")
    worst = int(np.abs(got.astype(int) - want.astype(int)).max()) if got.size else 0
    if worst > most:
        raise AssertionError(f"{what}: off by {worst}")


def pillow(data, channels):
    im = Image.open(io.BytesIO(data))
    if im.mode.startswith("I") or channels == 0:
        a = np.array(im)
        return (a.astype(np.uint8) * 255 if im.mode == "1" else a).reshape(im.height, im.width, -1)
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    if im.mode == "CMYK" and channels == 1:
        im = im.convert("RGB")
    return np.array(im.convert(mode)).reshape(im.height, im.width, channels)


def main():
    tmp = os.environ.get("TMPDIR") or tempfile.mkdtemp()
    source, out = os.path.join(tmp, "source"), os.path.join(tmp, "out")
    os.mkdir(source)
    make(source)
    _frame.pack(source, "-o", out)
    samples = [s["key"] for s in _frame.ls(out)]
    blobs = _frame.members(out)
    pictures = []  # (number, field, name, bytes)
    for name, data in sorted(blobs.items()):
        key, field = name.split(".", 1)
        pictures.append((samples.index(key), field, name, data))
    assert len(pictures) > 30, pictures
    tool = Tool(out)

    def test_whole():
        for i, field, name, data in pictures:
            for channels in (0, 1, 3, 4):
                if "I16" in name and channels not in (0, 1):
                    continue
                want = pillow(data, channels)
                close(tool.decode(i, field, channels), want, 0, f"{name} with {channels} channels")
                chw = tool.decode(i, field, channels, layout=1)
                close(chw, want.transpose(2, 0, 1), 0, f"{name} with {channels} channels, CHW")
            want = pillow(data, 1 if "I16" in name else 3)
            row = want.shape[1] * want.shape[2] * want.itemsize
            if "I16" not in name:
                close(tool.decode(i, field, 3, stride=row + 13), want, 0, f"{name} with a stride")

    def test_crops():
        """A crop is the whole, cut: at every place, also where chroma is upsampled over the cut."""
        for i, field, name, data in pictures:
            whole = tool.decode(i, field, 1 if "I16" in name else 3)
            h, w, _ = whole.shape
            for _ in range(60 if w > 100 else 8):
                cw, ch = rng.randint(1, w), rng.randint(1, h)
                if rng.random() < 0.5:
                    cw, ch = min(w, rng.randint(1, 40)), min(h, rng.randint(1, 40))
                x, y = rng.randint(0, w - cw), rng.randint(0, h - ch)
                got = tool.decode(i, field, whole.shape[2], crop=(x, y, cw, ch))
                close(got, whole[y:y + ch, x:x + cw], 0, f"{name} crop {x},{y} {cw}x{ch}")

    def test_scales():
        for i, field, name, data in pictures:
            if not name.endswith("jpg"):
                continue
            for scale in (2, 4, 8):
                im = Image.open(io.BytesIO(data))
                size = (-(-im.width // scale), -(-im.height // scale))
                got = tool.decode(i, field, 3, scale=scale)
                im.draft("RGB", size)  # libjpeg's own scaled decode
                if im.size == size and im.mode != "CMYK":
                    close(got, np.array(im.convert("RGB")), 0, f"{name} at 1/{scale}")
                h, w, _ = got.shape
                if (w, h) != size:
                    raise AssertionError(f"{name} at 1/{scale} has {w}x{h}, should have {size}")
                full = Image.open(io.BytesIO(data)).size
                for _ in range(20):
                    cw, ch = rng.randint(1, full[0]), rng.randint(1, full[1])
                    x, y = rng.randint(0, full[0] - cw), rng.randint(0, full[1] - ch)
                    part = tool.decode(i, field, 3, scale=scale, crop=(x, y, cw, ch))
                    want = got[y // scale:-(-(y + ch) // scale), x // scale:-(-(x + cw) // scale)]
                    close(part, want, 0, f"{name} at 1/{scale} crop {x},{y} {cw}x{ch}")

    def test_hint():
        """The largest reduction that leaves what is asked for."""
        i, field, name, data = next(p for p in pictures if p[2] == "j420_0.jpg")
        for least, want in (((640, 480), 1), ((321, 1), 1), ((320, 240), 2), ((160, 120), 4), ((1, 1), 8), ((81, 0), 4)):
            got = tool.decode(i, field, 3, scale=0, min_w=least[0], min_h=least[1])
            if got.shape[:2] != (480 // want, 640 // want):
                raise AssertionError(f"at least {least} gave {got.shape}, should be 1/{want}")
        got = tool.decode(i, field, 3, scale=0, min_w=101, min_h=101, crop=(0, 0, 200, 200))
        if got.shape != (200, 200, 3):
            raise AssertionError(f"the hint is for the crop: {got.shape}")

    def psnr(a, b):
        return 10 * np.log10(255 ** 2 / max(1e-9, np.mean((a.astype(float) - b) ** 2)))

    def test_resize():
        for i, field, name, data in pictures:
            if "I16" in name or name.startswith(("p1.", "jcmyk")) or Image.open(io.BytesIO(data)).width < 129:
                continue
            for channels in (1, 3):
                full = Image.fromarray(np.squeeze(pillow(data, channels)))
                for w, h in ((64, 48), (50, 90), (120, 60)):
                    want = np.array(full.resize((w, h), Image.LANCZOS)).reshape(h, w, channels)
                    got = tool.resize(i, field, w, h, channels=channels)
                    # Chroma is resampled from its own resolution, so not the same numbers.
                    least = 34 if name.startswith(("j420", "j422", "jprog")) and channels == 3 else 45
                    if "jpg" in name and full.width / w >= 4:
                        least = min(least, 34)  # a scaled decode with twice the size left
                    if psnr(got, want) < least:
                        raise AssertionError(f"{name} to {w}x{h}: {psnr(got, want):.1f} dB against Pillow")
                    chw = tool.resize(i, field, w, h, channels=channels, layout=1)
                    close(chw.transpose(1, 2, 0), got, 0, f"{name} CHW")
            full = Image.fromarray(pillow(data, 3))
            w, h = full.size
            box = (w // 5, h // 7, w // 2, h // 2)
            want = np.array(full.resize((40, 40), Image.LANCZOS, box=(box[0], box[1], box[0] + box[2], box[1] + box[3])))
            got = tool.resize(i, field, 40, 40, box=box)
            if psnr(got, want) < 33:
                raise AssertionError(f"{name} box {box}: {psnr(got, want):.1f} dB against Pillow")
            side = min(w, h)
            left, top = (w - side) / 2, (h - side) / 2
            want = np.array(full.resize((40, 40), Image.LANCZOS, box=(left, top, left + side, top + side)))
            got = tool.resize(i, field, 40, 40, fit=1)
            if psnr(got, want) < 33:
                raise AssertionError(f"{name} centre: {psnr(got, want):.1f} dB against Pillow")
            got = tool.resize(i, field, 40, 40, fast=1)
            if psnr(got, np.array(full.resize((40, 40), Image.LANCZOS))) < 28:
                raise AssertionError(f"{name} fast")

    def test_nearest_and_centre():
        for i, field, name, data in pictures:
            if "I16" in name:
                continue
            whole = tool.decode(i, field, 3)
            h, w, _ = whole.shape
            for tw, th in ((20, 30), (7, 5), (w, h), (w + 5, h + 3)):
                ys, xs = ((2 * np.arange(th) + 1) * h) // (2 * th), ((2 * np.arange(tw) + 1) * w) // (2 * tw)
                close(tool.resize(i, field, tw, th, nearest=1), whole[ys][:, xs], 0, f"{name} nearest {tw}x{th}")
                canvas = np.zeros((th, tw, 3), np.uint8)
                sx, sy, dx, dy = max(0, w - tw) // 2, max(0, h - th) // 2, max(0, tw - w) // 2, max(0, th - h) // 2
                part = whole[sy:sy + th, sx:sx + tw]
                canvas[dy:dy + part.shape[0], dx:dx + part.shape[1]] = part
                close(tool.resize(i, field, tw, th, fit=2), canvas, 0, f"{name} centre {tw}x{th}")
                chw = tool.resize(i, field, tw, th, fit=2, layout=1)
                close(chw.transpose(1, 2, 0), canvas, 0, f"{name} centre {tw}x{th} CHW")

    def test_box_of_the_size():
        """A box of the wanted size is cut out, not resampled."""
        for i, field, name, data in pictures:
            if "I16" in name:
                continue
            whole = tool.decode(i, field, 3)
            h, w, _ = whole.shape
            for _ in range(6):
                tw, th = rng.randint(1, w), rng.randint(1, h)
                x, y = rng.randint(0, w - tw), rng.randint(0, h - th)
                for layout in (0, 1):
                    got = tool.resize(i, field, tw, th, layout=layout, box=(x, y, tw, th))
                    close(got.transpose(1, 2, 0) if layout else got, whole[y:y + th, x:x + tw], 0, f"{name} box {x},{y} {tw}x{th}")

    def test_alpha():
        """Colours that alpha hides do not bleed."""
        i, field, name, data = next(p for p in pictures if p[2] == "pRGBA.png")
        want = np.array(Image.open(io.BytesIO(data)).resize((60, 40), Image.LANCZOS)).astype(int)
        got = tool.resize(i, field, 60, 40, channels=4).astype(int)
        seen = want[:, :, 3:] * (want[:, :, :3] - got[:, :, :3]) / 255
        if np.abs(want[:, :, 3] - got[:, :, 3]).max() > 2 or np.sqrt(np.mean(seen ** 2)) > 2:
            raise AssertionError(f"alpha off by {np.abs(want[:, :, 3] - got[:, :, 3]).max()}, colours by {np.sqrt(np.mean(seen ** 2)):.2f}")

    def test_batch():
        """Any number of threads gives what one picture at a time gives."""
        n = sum(1 for s in samples)
        alone = None
        for threads in (1, 2, 5, 0):
            try:
                _, data = tool.ask("batch", n, "-", 32, 24, threads)
            except ValueError as e:  # 16 bits cannot be: the first of them is named
                at = int(str(e).split(" at ")[1].split(":")[0])
                if samples[at] != "pI16" or "16 bits" not in str(e):
                    raise
                n = at
                _, data = tool.ask("batch", n, "-", 32, 24, threads)
            if alone is None:
                alone = b"".join(tool.resize(p[0], p[1], 32, 24).tobytes()
                                 for p in sorted(pictures)[:n])
            if data != alone:
                raise AssertionError(f"{threads} threads give other pixels")

    def test_refusals():
        i, field, name, data = next(p for p in pictures if p[2] == "j420_0.jpg")
        for kwargs, word in ((dict(crop=(600, 0, 41, 10)), "not inside"), (dict(channels=2), "not possible"),
                             (dict(scale=3), "not possible"), (dict(stride=100), "stride")):
            try:
                tool.decode(i, field, **{"channels": 3, **kwargs})
            except ValueError as e:
                if word not in str(e):
                    raise
            else:
                raise AssertionError(f"{kwargs} was not refused")

    def test_arrays():
        """Arrays come back with the values and the type that they had, however they are stored."""
        r = np.random.default_rng(3)
        arrays = {"f4": r.normal(0, 1, (3, 40, 50)).astype("<f4"), "f8": r.normal(0, 1, 700), "i8": r.integers(-9, 99, (60, 7)),
                  "u2": r.integers(0, 4096, (64, 65)).astype("<u2"), "big": np.arange(300, dtype=">i4").reshape(20, 15),
                  "scalar": np.array(3.5), "empty": np.zeros((0, 4), "<f4"), "bool": r.integers(0, 2, 999) > 0,
                  "fortran": np.asfortranarray(r.integers(0, 9, (30, 20, 4)).astype("<i8")), "c16": r.normal(0, 1, 9) * 1j,
                  "large": np.arange(400000, dtype="<i4") * 3, "text": np.array(["ab", "c"])}
        where = os.path.join(tmp, "arrays")
        os.mkdir(where)
        for name, a in arrays.items():
            np.save(os.path.join(where, name + ".npy"), a)
        for n, options in enumerate((["keep"], ["npy"], ["zstd"], ["blosc:shuffle"], ["blosc:bitshuffle"], ["zstd", "--narrow"],
                                     ["blosc:shuffle", "--narrow"])):
            to = os.path.join(tmp, f"arrays{n}")
            _frame.pack(where, "-o", to, "--array-codec", *options)
            reader = Tool(to)
            keys = [s["key"] for s in _frame.ls(to)]
            for name, a in arrays.items():
                member = next(m for m in _frame.members(to) if m.startswith(name + "."))
                (dtype, fortran, dims, *shape, _), data = reader.ask("array", keys.index(name), member.split(".", 1)[1])
                got = np.frombuffer(data, dtype).reshape(tuple(map(int, shape)), order="F" if fortran == "1" else "C")
                if len(shape) != int(dims) or got.shape != a.shape or got.dtype.newbyteorder("=") != a.dtype.newbyteorder("="):
                    raise AssertionError(f"{member} with {options}: {got.dtype}{got.shape}, should be {a.dtype}{a.shape}")
                if not np.array_equal(got, a):
                    raise AssertionError(f"{member} with {options}: other values")

    def test_no_array():
        i, field, name, data = pictures[0]
        try:
            tool.ask("array", i, field)
        except ValueError as e:
            if f"field {field} of sample {samples[i]}: holds no array" not in str(e):
                raise
        else:
            raise AssertionError("a picture was read as an array")

    global failed
    for name, test in list(locals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print("ok", name)
        except (AssertionError, ValueError) as e:
            print(f"  seed {SEED}: {e}")
            print("FAIL", name)
            failed += 1
    return failed != 0


sys.exit(main())
