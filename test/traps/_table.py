# SPDX-License-Identifier: Apache-2.0
"""The table behind the trap suite: what a row is, and how all rows of a file are packed and judged.

A row of the catalogue (A01, E04, ...) is one or several cases: the bytes of a file, and the pixels that are right for
it or the class of the reject. Every case goes through slimset from a folder and from a zip, into every codec, and is
decoded by Pillow or numpy; what libvips decodes from a JPEG, PNG, BMP or PNM is asked as a second opinion. All files
of a table travel in one run for each codec, so that a case costs milliseconds.
"""
import io
import os
import re
import sys
import tempfile
import shutil
import warnings
import zipfile

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../pack"), os.path.join(HERE, "../unit")]

import _vips  # noqa: E402
from _frame import ls, members, pack, rejects, write  # noqa: E402
from png_judge import decode_plain  # noqa: E402

warnings.filterwarnings("ignore", category=DeprecationWarning)
Image.MAX_IMAGE_PIXELS = None

# Options of each way a picture can leave slimset. 8-bit codecs take 16 bits only when told how.
WAYS = {
    "png": ["--codec", "png"],
    "raw": ["--codec", "raw"],
    "jpeg": ["--codec", "jpeg", "--quality", "100", "--subsampling", "444"],
    "webp": ["--codec", "webp", "--quality", "100"],
    "half": ["--codec", "png", "--resize", "scale:0.5"],
    "keep": [],
}
EIGHT_BITS = ["--depth", "8:0,65535"]
FAST = (b"\xff\xd8", b"\x89PNG", b"BM", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")
failed = 0


class Case:
    """One file of a row.

    want: the upright picture, h x w or h x w x (1, 2: gray and alpha, 3, 4), uint8 or uint16. None: a reject.
    reject: its class, or several. say: words that its reason must hold.
    tol: largest difference a decode may have (of 255; 16 bits: of 65535). mean: largest mean difference as JPEG.
    notes, absent: what the index must and must not say of it when it becomes PNG.
    ways: only these. vips: tolerance against libvips, or why it is not asked.
    """

    def __init__(self, row, name, ext, data, want=None, reject=None, say="", tol=0, mean=2.0, notes=(), absent=(),
                 ways=tuple(WAYS), vips=None):
        assert (want is None) != (reject is None), name
        self.row, self.name, self.ext, self.data, self.tol, self.mean = row, name, ext, data, tol, mean
        self.want = None if want is None else np.squeeze(np.ascontiguousarray(want), 2) if np.ndim(want) == 3 and \
            np.shape(want)[2] == 1 else np.ascontiguousarray(want)
        self.reject = (reject,) if isinstance(reject, str) else reject
        self.say, self.notes, self.absent, self.ways = say, notes, absent, ways
        self.vips = tol if vips is None else vips

    @property
    def deep(self):
        return self.want is not None and self.want.dtype == np.uint16


def report(name, problem, detail=""):
    """problem: None or false when all is well."""
    global failed
    if problem:
        print("  ", problem, detail)
        print("FAIL", name, flush=True)
        failed += 1
    else:
        print("ok", name)


def has_alpha(a):
    return a.ndim == 3 and a.shape[2] in (2, 4)


def without_alpha(a, keeps):
    """Alpha dropped where opaque, else kept or laid on white."""
    full = np.iinfo(a.dtype).max
    if not has_alpha(a):
        return a
    alpha = a[..., -1:].astype(np.float64)
    if (alpha == full).all():
        out = a[..., :-1]
    elif keeps:
        return a
    else:
        out = np.floor((a[..., :-1] * alpha + full * (full - alpha)) / full + 0.5).astype(a.dtype)
    return out[..., 0] if out.shape[2] == 1 else out


def lanczos(a, w, h):
    """Pillow's Lanczos on floats, colours weighted with alpha."""
    full = float(np.iinfo(a.dtype).max)
    planes = [a.astype(np.float64)] if a.ndim == 2 else [a[..., k].astype(np.float64) for k in range(a.shape[2])]
    if has_alpha(a):
        planes[:-1] = [p * planes[-1] / full for p in planes[:-1]]
    small = [np.asarray(Image.fromarray(p.astype(np.float32)).resize((w, h), Image.LANCZOS), np.float64) for p in planes]
    if has_alpha(a):
        alpha = np.clip(small[-1], 0, full)
        # Where next to nothing shows, colour means nothing.
        small[:-1] = [np.where(alpha > full / 50, p * full / np.maximum(alpha, 1), np.nan) for p in small[:-1]]
    out = np.clip(np.stack(small, -1), 0, full)
    return out[..., 0] if a.ndim == 2 else out


def loss(a, way):
    """The mean error of Pillow's encoder with the same settings."""
    b = io.BytesIO()
    im = Image.fromarray(a)
    im.save(b, "JPEG", quality=100, subsampling=0) if way == "jpeg" else im.save(b, "WEBP", quality=100)
    got = as_asked(np.asarray(Image.open(b)), a, 255)
    if has_alpha(a) and got.shape != a.shape:
        a = a[..., :-1] if got.ndim == 3 else a[..., 0]
    return np.abs(got.astype(int) - a).mean()


def expected(case, way):
    """The pixels that are right, as floats, and the tolerances (largest, mean)."""
    a, deep = case.want, case.deep
    keeps = way in ("png", "webp", "half")
    a = without_alpha(a, keeps)
    if way == "half":
        h, w = (max(1, int(np.floor(s * 0.5 + 0.5))) for s in a.shape[:2])
        a = lanczos(a, w, h)
        return a, case.tol + (600 if deep else 3), 100 if deep else 1.0
    a = a.astype(np.float64)
    if deep and way in ("jpeg", "webp"):
        a = np.floor(a * 255 / 65535 + 0.5)
    if way in ("jpeg", "webp"):
        return a, 255, 1.25 * loss(a.astype(np.uint8), way) + case.mean
    return a, case.tol, 255 * 257


def decoded(way, data):
    """What another program reads in the payload."""
    if way == "raw":
        a = np.load(io.BytesIO(data))
    elif way in ("png", "half") and data[24] == 16:
        # What was passed through may be interlaced or have tRNS.
        a = _vips.read(data) if data[28] or b"tRNS" in data[:600] else decode_plain(data)[4].transpose(1, 2, 0).astype(np.uint16)
    else:
        im = Image.open(io.BytesIO(data))
        assert im.getexif().get(274, 1) == 1, "an orientation tag is left"
        assert "icc_profile" not in im.info or way == "keep", "a profile is left"
        im.load()
        if im.mode == "1" and "transparency" in im.info:  # Pillow takes the key for a value of 255
            return _vips.read(data)
        if im.mode in ("P", "1"):
            im = im.convert("RGBA" if "transparency" in im.info else "RGB")
        elif "transparency" in im.info:
            im = im.convert("RGBA" if im.mode == "RGB" else "LA")
        a = np.asarray(im)
        if a.dtype == np.int32:
            a = a.astype(np.uint16)
    return a[..., 0] if a.ndim == 3 and a.shape[2] == 1 else a


def as_asked(a, like, slack):
    """WebP knows no gray, and a copied palette may be gray: the same picture in as many channels as `like`."""
    if a.ndim == 3 and a.shape[2] >= 3 and (like.ndim == 2 or like.shape[2] == 2):
        c = a[..., :3].astype(int)
        if (c.max(axis=2) - c.min(axis=2)).max() > slack:
            return None
        return a[..., 1] if a.shape[2] == 3 else a[..., [1, 3]]
    return a


def compare(got, want, tol, mean, slack=0):
    """What differs, or None. slack: how far gray may be coloured."""
    got = as_asked(got, want, slack)
    if got is None:
        return "has colours where gray is right"
    if has_alpha(got) and not has_alpha(want) and (got[..., -1] == np.iinfo(got.dtype).max).all():
        got = without_alpha(got, True)
    if got.shape != want.shape:
        return f"shape {got.shape}, should be {want.shape}"
    d = np.abs(got.astype(np.float64) - want)
    if has_alpha(want):
        d[..., :-1][(want[..., -1] == 0) & (got[..., -1] == 0)] = 0  # nobody sees that colour
    d = d[~np.isnan(d)]
    if d.size and (d.max() > tol or d.mean() > mean):
        return f"differs by {d.max():.0f}, on average {d.mean():.2f}; allowed {tol:.1f} and {mean:.2f}"
    return None


def judge(case, way, path, fields, refused, messages):
    """What is wrong with the outcome of one case, or None."""
    reject = refused.get(path)
    if case.reject is not None:
        if reject is None:
            return "was accepted"
        if reject["class"] not in case.reject:
            return f"rejected as {reject['class']} ({reject['reason']}), should be {'/'.join(case.reject)}"
        if case.say not in reject["reason"]:
            return f"the reason does not say {case.say!r}: {reject['reason']}"
        source, name = messages
        if not re.search(r"^reject: " + re.escape(source) + r"[:/] ?" + re.escape(path) + ": " + reject["class"], name, re.M):
            return "no line names it: " + name[-300:]
        return None
    if reject is not None:
        return f"rejected: {reject['class']}: {reject['reason']}"
    data, record = fields[path]
    if way == "keep":
        return None if data == case.data else "other bytes"
    want, tol, mean = expected(case, way)
    problem = compare(decoded(way, data), want, tol, mean, 4 if way == "webp" else 0)
    if problem is None and (record["height"], record["width"]) != want.shape[:2]:
        problem = f"the index says {record['width']} x {record['height']}"
    if problem is None and way == "png":
        missing, surplus = set(case.notes) - set(record["notes"]), set(case.absent) & set(record["notes"])
        if missing or surplus:
            problem = f"notes {record['notes']}, missing {missing}, too many {surplus}"
    return problem


def stored(out):
    """{source path: (bytes, record)}"""
    data = members(out)
    return {f["path"]: (data[f"{s['key']}.{f['name']}"], f) for s in ls(out) for f in s["fields"] if f["path"]}


def one_run(cases, names, folder, way, source, deep, extra):
    """Packs one source into one codec."""
    out = f"{folder}-{way}-{os.path.basename(source)}"
    options = [*WAYS[way], *(EIGHT_BITS if deep and way in ("jpeg", "webp") else []), *extra]
    p = pack(source, "-o", out, *options, "--image", "*", "--no-detect", "--shards", "1", "--classes", "none", "-v",
             "--max-rejects", "100%", code=None)
    problem = None if p.returncode in (0, 3) else f"exit {p.returncode}: {p.err[-800:]}"
    fields, refused = ({}, {}) if problem else (stored(out), rejects(out))
    kind = "zip" if source.endswith(".zip") else "folder"
    for case, name in zip(cases, names):
        if way in case.ways:
            try:
                trouble = problem or judge(case, way, name, fields, refused, (source, p.err))
            except Exception as e:  # a payload that cannot be read is a finding, not the end of the table
                trouble = f"{type(e).__name__}: {e}"
            report(f"{case.row} {case.name}: {way} from {kind}", trouble)
    shutil.rmtree(out, ignore_errors=True)


def libvips_agrees(case):
    """A second decoder of the same file, which is not in the path of these formats."""
    if case.want is None or not case.data.startswith(FAST) or isinstance(case.vips, str) or _vips.lib is None:
        return
    try:
        got = _vips.read(case.data)
        problem = compare(got, case.want.astype(np.float64), case.vips, 255 * 257)
        if problem and has_alpha(case.want):
            problem = compare(without_alpha(got, True), without_alpha(case.want, True).astype(np.float64), case.vips, 65535)
    except Exception as e:
        problem = f"{type(e).__name__}: {e}"
    report(f"{case.row} {case.name}: as libvips decodes it", problem)


def run_table(cases, ways=tuple(WAYS), extra=()):
    """Packs and judges all cases. extra: options for every run."""
    for deep in (False, True):
        some = [c for c in cases if c.deep == deep]
        if not some:
            continue
        folder = "deep" if deep else "src"
        names = [f"{i:03d} {c.row} {re.sub(r'[^A-Za-z0-9]+', '-', c.name)}.{c.ext}" for i, c in enumerate(some)]
        shutil.rmtree(folder, ignore_errors=True)
        with zipfile.ZipFile(folder + ".zip", "w") as z:
            for i, (case, name) in enumerate(zip(some, names)):
                write(f"{folder}/{name}", case.data)
                z.writestr(name, case.data, zipfile.ZIP_DEFLATED if i % 2 and len(case.data) > 100 else zipfile.ZIP_STORED)
        for way in ways:
            for source in (folder, folder + ".zip"):
                one_run(some, names, folder, way, source, deep, extra)
        for case in some:
            libvips_agrees(case)


def main(*parts):
    """Each part is a function that runs tables or reports by itself, in an empty folder."""
    only = sys.argv[1:]
    folder = tempfile.mkdtemp(prefix="slimset-traps-")
    os.chdir(folder)
    for part in parts:
        if only and part.__name__ not in only:
            continue
        os.makedirs(part.__name__)
        os.chdir(part.__name__)
        try:
            part()
        except Exception as e:
            import traceback
            traceback.print_exc(file=sys.stdout)
            report(part.__name__, f"{type(e).__name__}: {e}")
        os.chdir(folder)
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)
