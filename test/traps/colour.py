# SPDX-License-Identifier: Apache-2.0
"""Group B: profiles of every kind, CMYK, RGB-coded JPEG, gamma, gray among colour. LittleCMS through Pillow is the judge."""
import functools
import io
import os
import struct
import zlib

import numpy as np
from PIL import Image, ImageCms

from _table import Case, main, run_table
from _make import after_soi, chunk, cjpeg, encoded, gradient, jpeg, patches, png, seen, segment, tiff

FOLDER = "/usr/share/color/icc/"
PATCH = patches()
FLAT_GRAY = np.full((32, 64), 128, np.uint8)
SRGB = ["--color", "srgb"]
NO_KEEP = ("png", "raw", "jpeg", "webp", "half")


def profile(space=b"RGB ", primaries=((.515121, .241196, -.001053), (.291977, .692245, .041885), (.157104, .066574, .784073)),
            gamma=2.2, kind=b"mntr"):
    """A matrix profile (Display P3's primaries unless told otherwise), or a gray one."""
    fixed = lambda v: struct.pack(">i", round(v * 65536))
    xyz = lambda c: b"XYZ \0\0\0\0" + b"".join(map(fixed, c))
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    text = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"trap\0" + bytes(78)
    tags = [(b"desc", text), (b"wtpt", xyz((.9642, 1, .8249)))]
    if space == b"GRAY":
        tags.append((b"kTRC", curve))
    else:
        tags += [(n + b"XYZ", xyz(c)) for n, c in zip((b"r", b"g", b"b"), primaries)]
        tags += [(n + b"TRC", curve) for n in (b"r", b"g", b"b")]
    table, body, at = struct.pack(">I", len(tags)), b"", 128 + 4 + 12 * len(tags)
    for name, data in tags:
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    head = struct.pack(">I4sI4s4s4s", 128 + len(table) + len(body), b"lcms", 0x02400000, kind, space, b"XYZ ")
    head += bytes(12) + b"acsp" + bytes(28) + xyz((.9642, 1, .8249))[8:]
    return head.ljust(128, b"\0") + table + body


def found(*names):
    for n in names:
        if os.path.exists(FOLDER + n):
            with open(FOLDER + n, "rb") as f:
                return f.read()
    return None


def to_srgb(a, icc, mode="RGB"):
    im = ImageCms.profileToProfile(Image.fromarray(a), ImageCms.ImageCmsProfile(io.BytesIO(icc)),
                                   ImageCms.createProfile("sRGB"), renderingIntent=1, outputMode="RGB")
    return np.asarray(im) if a.ndim == 3 else np.asarray(im)[..., 1]


def iccp(icc, name=b"p", method=0, crc=None):
    return chunk("iCCP", name + b"\0" + bytes([method]) + zlib.compress(icc), crc)


def tagged(a, icc):
    """The picture with the profile, in each format: (name, ext, bytes)."""
    yield "jpeg", "jpg", jpeg(a, quality=100, icc_profile=icc)
    yield "png", "png", png(a, before=iccp(icc))
    yield "png 16 bits", "png", png(a.astype(np.uint16) * 257, 16, before=iccp(icc))
    yield "tiff", "tif", tiff(a, 2 if a.ndim == 3 else 1, tags=[(34675, 7, icc)])
    if a.ndim == 3:
        yield "webp", "webp", encoded(a, "WEBP", lossless=True, icc_profile=icc)
    elif a.ndim == 2:
        yield "tiff minwhite", "tif", tiff(255 - a, 0, tags=[(34675, 7, icc)])


@functools.lru_cache(1)
def profiles():
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    rgb = {"sRGB": srgb, "Display P3": profile(), "gamma 1.0": profile(gamma=1.0),
           "AdobeRGB": found("compatibleWithAdobeRGB1998.icc"), "LStar": found("LStar-RGB.icc")}
    gray = {"gray 1.8": profile(b"GRAY", gamma=1.8), "Gray.icc": found("Gray.icc", "ghostscript/default_gray.icc")}
    cmyk = {"default_cmyk": found("ghostscript/default_cmyk.icc", "FOGRA39L_coated.icc", "SWOP-uncoated.icc")}
    return tuple({k: v for k, v in some.items() if v is not None} for some in (rgb, gray, cmyk))


def wide(want, name):
    return want.astype(np.uint16) * 257 if "16 bits" in name else want


def kept():
    """Without --color: numbers as they are, no profile in the output, counted."""
    rgb, gray, cmyk = profiles()
    cases = [Case("B01", "untagged png", "png", png(PATCH), PATCH, absent=("profile-dropped", "profile-bad")),
             Case("B01", "untagged jpeg", "jpg", jpeg(PATCH, quality=100), PATCH, tol=2),
             Case("B01", "untagged gray", "png", png(FLAT_GRAY), FLAT_GRAY)]
    for icc_name, icc in {**rgb, **gray, **cmyk}.items():
        for a, kind in ((PATCH, "RGB"), (FLAT_GRAY, "gray")):
            row = "B02" if icc_name == "sRGB" and kind == "RGB" else "B03" if (kind == "RGB") == (icc_name in rgb) else "B04"
            for name, ext, data in tagged(a, icc):
                cases.append(Case(row, f"{icc_name} kept on {kind} {name}", ext, data, wide(a, name), tol=2 if ext == "jpg" else 0,
                                  notes=("profile-dropped",), vips="profiles"))
    run_table(cases)


def converted():
    """--color srgb: through profiles that fit; others are ignored and said so."""
    rgb, gray, cmyk = profiles()
    cases = []
    for name, a, data in (("png", PATCH, png(PATCH)), ("jpeg", PATCH, jpeg(PATCH, quality=100)), ("gray", FLAT_GRAY, png(FLAT_GRAY)),
                          ("gray jpeg", FLAT_GRAY, jpeg(FLAT_GRAY, quality=100))):
        ext = "jpg" if "jpeg" in name else "png"
        cases.append(Case("B01", f"untagged {name} is not touched", ext, data, a, tol=2 if ext == "jpg" else 0,
                          absent=("profile-used", "profile-bad"), vips="asked already"))
    for icc_name, icc in {**rgb, **gray, **cmyk}.items():
        for a, kind in ((PATCH, "RGB"), (FLAT_GRAY, "gray")):
            fits = icc_name in (rgb if kind == "RGB" else gray)
            want = to_srgb(a, icc) if fits else a
            row = "B02" if icc_name == "sRGB" and fits else "B03" if fits else "B04"
            for name, ext, data in tagged(a, icc):
                right = want if fits else wide(want, name)
                cases.append(Case(row, f"{icc_name} used on {kind} {name}", ext, data, right, tol=3, ways=NO_KEEP, vips="profiles",
                                  notes=("profile-used",) if fits else ("profile-bad",)))
    bad = rgb["Display P3"]
    flip = lambda at, new: bad[:at] + new + bad[at + len(new):]
    for name, icc in (("garbage", b"garbage" * 40), ("cut in the header", bad[:100]), ("cut in the tags", bad[:140]),
                      ("cut in a curve", bad[:-8]), ("wrong signature", flip(36, b"xxxx")), ("length too large", flip(0, b"\0\xff\0\0")),
                      ("length too small", flip(0, b"\0\0\0\x10")), ("a device link", flip(12, b"link")),
                      ("a named-colour profile", flip(12, b"nmcl")), ("colour space Lab", flip(16, b"Lab ")),
                      ("tag offsets outside", flip(132 + 24 + 4, b"\x7f\xff\xff\xf0"))):
        for kind, ext, data in tagged(PATCH, icc):
            if ext != "webp" and "16" not in kind:
                cases.append(Case("B05", f"{name} in {kind}", ext, data, PATCH, tol=3, ways=NO_KEEP, vips="profiles",
                                  notes=("profile-bad",)))
    part = lambda k, n, body: segment(0xE2, b"ICC_PROFILE\0" + bytes([k, n]) + body)
    plain, half = jpeg(PATCH, quality=100), len(bad) // 2
    for name, parts, good in (("in two segments", [(1, 2, bad[:half]), (2, 2, bad[half:])], True),
                              ("in two segments, the second first", [(2, 2, bad[half:]), (1, 2, bad[:half])], True),
                              ("the second of two is missing", [(1, 2, bad[:half])], False),
                              ("a number twice", [(1, 2, bad[:half]), (1, 2, bad[half:])], False),
                              ("a number beyond the count", [(1, 1, bad[:half]), (2, 1, bad[half:])], False),
                              ("number 0", [(0, 1, bad)], False)):
        data = after_soi(plain, *[part(*p) for p in parts])
        cases.append(Case("B05", f"a jpeg profile {name}", "jpg", data, to_srgb(PATCH, bad) if good else PATCH, tol=3, ways=NO_KEEP,
                          notes=("profile-used",) if good else ("profile-bad",), vips="profiles"))
    for name, before in (("with damaged deflate", chunk("iCCP", b"p\0\0" + zlib.compress(bad)[:-9] + b"\xff" * 9)),
                         ("of an unknown method", iccp(bad, method=1)), ("without a name's end", chunk("iCCP", b"p" * 90)),
                         ("with a wrong checksum", iccp(bad, crc=1)), ("that is empty", chunk("iCCP", b""))):
        cases.append(Case("B05", f"an iCCP chunk {name}", "png", png(PATCH, before=before), PATCH, tol=0, ways=NO_KEEP,
                          notes=("profile-bad",), vips="profiles"))
    run_table(cases, NO_KEEP, SRGB)


INK = np.zeros((32, 80, 4), np.uint8)
for k, c in enumerate(((0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 255), (30, 80, 120, 60))):
    INK[:, 16 * k:16 * k + 16] = c  # 255: full ink
RGB_OF_INK = np.floor((255.0 - INK[..., :3]) * (255 - INK[..., 3:]) / 255 + 0.5).astype(np.uint8)


def cmyk_jpegs():
    """With and without Adobe's marker, and as YCCK: the components are stored inverted, as Photoshop writes them."""
    adobe = encoded(Image.fromarray(INK, "CMYK"), "JPEG", quality=100, subsampling=0)
    at = adobe.index(b"\xff\xee")
    size = struct.unpack(">H", adobe[at + 2:at + 4])[0]
    plain = adobe[:at] + adobe[at + 2 + size:]
    ycck = encoded(Image.fromarray(255 - np.dstack([np.asarray(Image.fromarray(INK[..., :3]).convert("YCbCr")), 255 - INK[..., 3]]), "CMYK"),
                   "JPEG", quality=100, subsampling=0)
    i = ycck.index(b"Adobe")
    return {"with Adobe's marker": adobe, "without a marker": plain, "as YCCK": ycck[:i + 11] + b"\2" + ycck[i + 12:],
            "progressive": encoded(Image.fromarray(INK, "CMYK"), "JPEG", quality=100, subsampling=0, progressive=True)}


def cmyk():
    cases = []
    for name, data in cmyk_jpegs().items():
        want = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        if "without" not in name:
            assert np.abs(want.astype(int) - RGB_OF_INK).max() <= 6, (name, want[0, ::16], RGB_OF_INK[0, ::16])
        cases.append(Case("B06", f"CMYK jpeg {name}", "jpg", data, want, tol=1, notes=("cmyk",), vips="CMYK"))
    for compression in (1, 8):
        for planar in (1, 2):
            cases.append(Case("B06", f"CMYK tiff, compression {compression}, planar {planar}", "tif",
                              tiff(INK, 5, compression=compression, planar=planar, tags=[(332, 3, [1])]), RGB_OF_INK, tol=1, notes=("cmyk",)))
    cases.append(Case("B06", "CMYK tiff 16 bits", "tif", tiff(INK.astype(np.uint16) * 257, 5), RGB_OF_INK.astype(np.uint16) * 257,
                      tol=257, notes=("cmyk",)))
    cases.append(Case("B06", "inks that are not CMYK", "tif", tiff(INK, 5, tags=[(332, 3, [2])]), reject="unsupported"))
    run_table(cases)
    icc = next(iter(profiles()[2].values()), None)
    if icc is None:
        print("skip B06 CMYK profile: no CMYK profile in " + FOLDER)
        return
    data = encoded(Image.fromarray(INK, "CMYK"), "JPEG", quality=100, subsampling=0, icc_profile=icc)
    want = np.asarray(ImageCms.profileToProfile(Image.open(io.BytesIO(data)), ImageCms.ImageCmsProfile(io.BytesIO(icc)),
                                                ImageCms.createProfile("sRGB"), renderingIntent=1, outputMode="RGB"))
    wrong = encoded(Image.fromarray(INK, "CMYK"), "JPEG", quality=100, subsampling=0, icc_profile=profile())
    naive = np.asarray(Image.open(io.BytesIO(wrong)).convert("RGB"))
    run_table([Case("B06", "CMYK jpeg through its own profile", "jpg", data, want, tol=6, notes=("profile-used",), ways=NO_KEEP, vips="CMYK"),
               Case("B04", "an RGB profile on a CMYK jpeg", "jpg", wrong, naive, tol=3, notes=("profile-bad", "cmyk"), ways=NO_KEEP,
                    vips="CMYK")], NO_KEEP, SRGB)


def codings():
    """B07 to B10: what a JPEG says of its components, gamma, HDR, gray among colour."""
    plain = jpeg(PATCH, quality=100)
    bare = plain[:2] + plain[2 + 2 + struct.unpack(">H", plain[4:6])[0]:]
    rgb = cjpeg(PATCH, "-quality", "100", "-rgb")
    ids = bytearray(bare)
    at = ids.index(b"\xff\xc0")
    scan = ids.index(b"\xff\xda")
    for k in range(3):  # component identifiers 'R' 'G' 'B' without any marker mean RGB
        ids[at + 10 + 3 * k] = ids[scan + 5 + 2 * k] = b"RGB"[k]
    cases = [Case("B07", "RGB-coded, Adobe transform 0", "jpg", rgb, PATCH, tol=2),
             Case("B07", "YCC without JFIF or Adobe marker", "jpg", bare, PATCH, tol=2),
             Case("B07", "components named R, G, B", "jpg", bytes(ids), seen(bytes(ids)), tol=2, mean=4)]
    odd = rgb.index(b"Adobe")
    cases.append(Case("B07", "Adobe transform 7 is taken as YCC", "jpg", rgb[:odd + 11] + b"\7" + rgb[odd + 12:],
                      seen(rgb[:odd + 11] + b"\7" + rgb[odd + 12:]), tol=2, notes=("warning",), mean=4))
    level = np.full((4, 8, 3), 128, np.uint8)
    for gamma in (45455, 100000, 22727, 0, 1):
        cases.append(Case("B08", f"gAMA {gamma} is not applied", "png", png(level, before=chunk("gAMA", struct.pack(">I", gamma))), level,
                          notes=() if gamma == 45455 else ("gamma",), absent=("gamma",) if gamma == 45455 else ()))
    cases.append(Case("B08", "cHRM is not applied", "png", png(level, before=chunk("cHRM", struct.pack(">8I", *range(30000, 38000, 1000)))), level))
    for transfer, noted in ((13, False), (1, False), (16, True), (18, True), (8, True)):
        cases.append(Case("B09", f"cICP transfer {transfer}", "png", png(level, before=chunk("cICP", bytes([9, transfer, 0, 1]))), level,
                          notes=("gamma",) if noted else (), absent=() if noted else ("gamma",)))
    a = gradient(64, 48)
    hdr = encoded(a, "MPO", quality=100, subsampling=0, save_all=True, append_images=[Image.fromarray(255 - a)])
    xmp = (b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/"
           b"22-rdf-syntax-ns#\"><rdf:Description xmlns:hdrgm=\"http://ns.adobe.com/hdr-gain-map/1.0/\" hdrgm:Version=\"1.0\"/>"
           b"</rdf:RDF></x:xmpmeta>")
    hdr = hdr[:2] + segment(0xE1, xmp) + hdr[2:]
    cases.append(Case("B09", "a gain map behind the picture", "jpg", hdr, seen(hdr), tol=0, mean=3, notes=("tail-bytes",)))
    run_table(cases)
    gray, colour = gradient(40, 30, 1, 1), gradient(40, 30, 2)
    luma = np.asarray(Image.fromarray(colour).convert("L"))
    three = lambda g: np.dstack([g] * 3)
    la = np.dstack([gray, np.full_like(gray, 255)])
    files = (("gray jpeg", "jpg", jpeg(gray, quality=100), gray, None, 1), ("gray png", "png", png(gray), gray, None, 0),
             ("colour png", "png", png(colour), colour, luma, 0), ("colour jpeg", "jpg", jpeg(colour, quality=100), seen(jpeg(colour, quality=100)), luma, 3),
             ("opaque gray and alpha", "png", png(la), gray, None, 0), ("gray tiff", "tif", tiff(gray, 1), gray, None, 0),
             ("palette", "png", png(np.arange(4)[None].repeat(4, 0), 2, 3, plte=[0, 0, 0, 90, 90, 90, 160, 160, 160, 255, 255, 255]),
              three(np.uint8([[0, 90, 160, 255]] * 4)), np.uint8([[0, 90, 160, 255]] * 4), 0))
    run_table([Case("B10", f"{n} as three channels", e, d, three(a) if a.ndim == 2 else a, tol=t, vips="asked already",
                    notes=("channels",) if a.ndim == 2 else ()) for n, e, d, a, _, t in files], NO_KEEP, ["--channels", "3"])
    run_table([Case("B10", f"{n} as one channel", e, d, a if a.ndim == 2 else g, tol=max(t, 1), vips="asked already",
                    notes=("channels",) if a.ndim == 3 else ()) for n, e, d, a, g, t in files], NO_KEEP, ["--channels", "1"])


if __name__ == "__main__":
    main(kept, converted, cmyk, codings)
