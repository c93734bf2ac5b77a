# SPDX-License-Identifier: Apache-2.0
"""Group A: the orientation tag, in every format and place it can stand, and masks that follow their image."""
import io
import os

import numpy as np
from PIL import Image

from _table import Case, main, report, run_table, stored
from _make import (after_soi, chunk, encoded, exif, gradient, jpeg, png, quadrants, seen, segment, tiff, upright,
                   vips, with_exif)
from _frame import pack, write

QUAD = quadrants()
PHOTO = gradient(61, 37, 2)  # odd sides, no symmetry
GRAY = gradient(44, 31, 1, 1)
TURNED = range(0, 10)


def webp(a, o, **k):
    ex = Image.Exif()
    ex[274] = o
    return encoded(a, "WEBP", lossless=True, exif=ex.tobytes(), **k)


def cases():
    for name, a in (("quadrants", QUAD), ("photo", PHOTO), ("gray", GRAY)):
        plain = jpeg(a, quality=100)
        pixels = seen(plain)
        for o in TURNED:
            right = "rotated" if 2 <= o <= 8 else None
            notes, absent = ((right,), ()) if right else ((), ("rotated",))
            yield Case("A01", f"orientation {o} jpeg {name}", "jpg", with_exif(plain, exif(o)), upright(pixels, o),
                       notes=notes, absent=absent, vips="9 and 0" if o in (0, 9) else 2, mean=3)
            yield Case("A02", f"orientation {o} png {name}", "png", png(a, before=chunk("eXIf", exif(o))), upright(a, o),
                       notes=notes, absent=absent)
            yield Case("A03", f"orientation {o} png behind the data {name}", "png", png(a, behind=chunk("eXIf", exif(o))),
                       upright(a, o), notes=notes, absent=absent, vips="does not look behind the image data")
            yield Case("A05", f"orientation {o} tiff {name}", "tif",
                       tiff(a, 1 if a.ndim == 2 else 2, tags=[(274, 3, [o])]), upright(a, o), notes=notes, absent=absent)
            if name != "gray":
                yield Case("A04", f"orientation {o} webp {name}", "webp", webp(a, o), upright(a, o), notes=notes, absent=absent)
    # Subsampled chroma must turn with its picture, also where a block reaches over an odd edge.
    for sub, words in ((1, "4:2:2"), (2, "4:2:0")):
        plain = jpeg(PHOTO, quality=100, subsampling=sub)
        for o in range(1, 9):
            yield Case("A01", f"orientation {o} jpeg {words}", "jpg", with_exif(plain, exif(o)), upright(seen(plain), o),
                       mean=4, vips=2)  # chroma is enlarged by Lanczos here, by a triangle there
    plain = jpeg(QUAD, quality=100)
    pixels = seen(plain)
    block = lambda *a, **k: with_exif(plain, exif(*a, **k))
    xmp = (b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/"
           b"02/22-rdf-syntax-ns#\"><rdf:Description xmlns:tiff=\"http://ns.adobe.com/tiff/1.0/\" tiff:Orientation=\"6\"/>"
           b"</rdf:RDF></x:xmpmeta>")
    two = after_soi(plain, segment(0xE1, b"Exif\0\0" + exif(1)), segment(0xE1, b"Exif\0\0" + exif(6)))
    for name, data, o in (
            ("type LONG", block(6, 4), 6), ("type BYTE", block(6, 1), 6), ("big-endian", block(6, big=True), 6),
            ("big-endian LONG", block(8, 4, big=True), 8), ("value 65535", block(65535), 1), ("value 70000 as LONG", block(70000, 4), 1),
            ("first of two blocks counts", two, 1), ("XMP alone is not applied", after_soi(plain, segment(0xE1, xmp)), 1),
            ("another tag", block(6, tag=273), 1), ("a block cut short", with_exif(plain, exif(6)[:12]), 1),
            ("an empty block", with_exif(plain, b""), 1), ("offset beyond the block", with_exif(plain, b"II*\0\xff\xff\0\0"), 1),
            ("the tag behind another", with_exif(plain, b"II*\0\x08\0\0\0\2\0\x0f\1\2\0\3\0\0\0ab\0\0" + exif(5)[10:]), 5)):
        yield Case("A06", name, "jpg", data, upright(pixels, o), mean=3, vips="differs between versions")
    for o, kind in ((6, 3), (3, 4)):
        yield Case("A06", f"eXIf with JPEG's prefix, orientation {o}", "png", png(QUAD, before=chunk("eXIf", b"Exif\0\0" + exif(o, kind))),
                   upright(QUAD, o), vips="does not know the prefix")
    yield Case("A06", "eXIf with a wrong checksum is ignored", "png", png(QUAD, before=chunk("eXIf", exif(6), 1)), QUAD,
               notes=("warning",), vips="strict")
    for order in "<>":
        for kind, value in ((3, 0), (3, 9), (3, 65535), (4, 0), (4, 70000), (1, 200), (4, 6), (1, 8)):
            yield Case("A05", f"tag {value} of type {kind}, {'big' if order == '>' else 'little'}-endian", "tif",
                       tiff(QUAD, 2, order=order, tags=[(274, kind, [value])]), upright(QUAD, value if value <= 8 else 1))
    # alpha and 16 bits turn as well
    rgba = gradient(33, 20, 3, 4)
    deep = gradient(30, 21, 2, 3, 65535)
    for o in range(1, 9):
        yield Case("A02", f"orientation {o} png with alpha", "png", png(rgba, before=chunk("eXIf", exif(o))), upright(rgba, o))
        yield Case("A02", f"orientation {o} png 16 bits", "png", png(deep, 16, before=chunk("eXIf", exif(o))), upright(deep, o))
        yield Case("A05", f"orientation {o} tiff 16 bits", "tif", tiff(deep, 2, tags=[(274, 3, [o])]), upright(deep, o))


def table():
    run_table(list(cases()))


def heif():
    """A07: libheif turns the picture as the file says; the EXIF tag in a HEIF is for information only."""
    found = []
    write("a.jpg", with_exif(jpeg(QUAD, quality=100), exif(6)))
    for kind, compression in (("avif", "av1"), ("heic", "hevc")):
        try:
            vips("heifsave", "a.jpg", f"a.{kind}", "--compression", compression, "--Q", 95, "--subsample-mode", "off")
        except Exception:
            print(f"skip A07 {kind}: libvips here has no encoder for it")
            continue
        # libheif 1.15 writes no irot, later ones do: either way the decoder has the last word.
        vips("copy", f"a.{kind}[autorotate]", f"{kind}.png")
        vips("copy", f"a.{kind}", f"{kind}-plain.png")
        want = seen(open(f"{kind}-plain.png", "rb").read())[..., :3]
        with open(f"a.{kind}", "rb") as f:
            found.append(Case("A07", f"{kind} with an EXIF tag is turned once", kind, f.read(), want, mean=4))
    if found:
        run_table(found)


def twice():
    """A08: what was turned is not turned again."""
    for o in range(1, 9):
        write(f"src/{o}.jpg", with_exif(jpeg(PHOTO), exif(o)))
    pack("src", "-o", "one", "--codec", "jpeg", "--image", "*", "--classes", "none")
    first = stored("one")
    for path, (data, _) in first.items():
        write(f"again/{path}", data)
    pack("again", "-o", "two", "--codec", "jpeg", "--image", "*", "--classes", "none")
    second = stored("two")
    for o in range(1, 9):
        data, record = second[f"{o}.jpg"]
        report(f"A08 orientation {o}: a second pass changes nothing", None if data == first[f"{o}.jpg"][0] and "rotated" not in
               record["notes"] else record)
        im = Image.open(io.BytesIO(data))
        report(f"A10 orientation {o}: no tag is left for readers to disagree on", None if im.getexif().get(274) is None and
               b"Exif" not in data else "EXIF in the output")


def masks():
    """G07: a mask has the upright size of its image; where it carries the same tag it is turned by the same rule."""
    labels = (np.arange(37)[:, None] // 5 * 16 + np.arange(61)[None] // 7).astype(np.uint8)
    for o in range(1, 9):
        image = with_exif(jpeg(PHOTO), exif(o))
        tagged = {"png": png(labels, before=chunk("eXIf", exif(o))), "tif": tiff(labels, 1, tags=[(274, 3, [o])])}
        for ext, data in tagged.items():
            write(f"tagged/{o}{ext}.jpg", image)
            write(f"tagged/{o}{ext}.mask.{ext}", data)
        write(f"shown/{o}.jpg", image)
        write(f"shown/{o}.mask.png", png(upright(labels, o)))
        write(f"stored/{o}.jpg", image)
        write(f"stored/{o}.mask.png", png(labels))
    for folder, resize in (("tagged", []), ("shown", []), ("tagged", ["--resize", "scale:0.5"]), ("shown", ["--resize", "scale:0.5"])):
        out = f"{folder}{len(resize)}"
        pack(folder, "-o", out, "--codec", "png", "--mask", "*.mask.*", "--classes", "none", *resize)
        for path, (data, record) in sorted(stored(out).items()):
            if ".mask." not in path:
                continue
            want = upright(labels, int(path[0]))
            if resize:
                h, w = want.shape
                th, tw = int(h * 0.5 + 0.5), int(w * 0.5 + 0.5)
                want = want[((2 * np.arange(th) + 1) * h // (2 * th))[:, None], ((2 * np.arange(tw) + 1) * w // (2 * tw))[None]]
            got = seen(data)
            report(f"G07 orientation {path[0]}: mask {path.split('.')[-1]} {folder}{' at half size' if resize else ''}",
                   None if got.shape == want.shape and (got == want).all() else f"{got.shape} for {want.shape}")
    p = pack("stored", "-o", "no", "--codec", "png", "--mask", "*.mask.*", "--classes", "none", code=3)
    for o in range(5, 9):
        report(f"G07 orientation {o}: a mask in the stored space is a reject", None if f"{o}.mask.png: pair" in p.err else p.err[-400:])
    for path in (f"{o}.mask.png" for o in range(1, 5)):
        report(f"G07 orientation {path[0]}: a mask of the same size stays", None if path in stored("no") else "missing")


if __name__ == "__main__":
    main(table, heif, twice, masks)
