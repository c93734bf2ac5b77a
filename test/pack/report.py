# SPDX-License-Identifier: Apache-2.0
"""What the report says of a run: every decision counted, profiles by name, what goes with the class. The counts are those of inputs
made here; profile names those that lcms (Pillow's ImageCms) reads. Runs with SLIMSET_IN_PROCESS as well."""
import io
import json
import os
import struct

import numpy as np
from PIL import Image, ImageCms

from _frame import jpeg, ls, main, pack, picture, run, save, write

ICC = "/usr/share/color/icc"


def summary(*args, **k):
    p = pack(*args, "--json", **k)
    return json.loads(p.out.splitlines()[-1])


def icc(text, version=2):
    """A profile with a description and nothing else that could be used; version 4: German first, then English."""
    if version == 2:
        body = b"desc\0\0\0\0" + struct.pack(">I", len(text) + 1) + text.encode("ascii") + b"\0" + bytes(78)
    else:
        de, en = "Farbraum".encode("utf-16-be"), text.encode("utf-16-be")
        body = b"mluc\0\0\0\0" + struct.pack(">II", 2, 12) + b"deDE" + struct.pack(">II", len(de), 40) + \
            b"enUS" + struct.pack(">II", len(en), 40 + len(de)) + de + en
    head = bytearray(128)
    head[8], head[12:16], head[16:20], head[20:24], head[36:40] = version, b"mntr", b"RGB ", b"XYZ ", b"acsp"
    data = head + struct.pack(">I", 1) + b"desc" + struct.pack(">II", 144, len(body)) + body
    data[0:4] = struct.pack(">I", len(data))
    return bytes(data)


def find(name):
    for folder, _, names in os.walk(ICC):
        if name in names:
            return os.path.join(folder, name)
    return None


def test_profiles_are_counted_by_name():
    names, want = {"Wide World": 3, "Display P3": 2}, {}
    for k, (name, n) in enumerate(names.items()):
        for i in range(n):
            a = picture(60, 40, 10 * k + i)
            if i % 2:
                save(f"src/p{k}{i}.png", a, icc_profile=icc(name, 4))
            else:
                write(f"src/j{k}{i}.jpg", jpeg(a, icc_profile=icc(name)))
        want[name] = n
    real = [p for p in map(find, ("AdobeRGB1998.icc", "compatibleWithAdobeRGB1998.icc", "sRGB.icc")) if p]
    assert real, "icc-profiles-free is not installed"
    for k, path in enumerate(real):
        data = open(path, "rb").read()
        name = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(data))).strip()
        write(f"src/r{k}.jpg", jpeg(picture(60, 40, k), icc_profile=data))
        want[name] = want.get(name, 0) + 1
    write("src/none.jpg", jpeg(picture(60, 40, 99), icc_profile=b"not a profile" * 20))
    want[""] = 1
    for args in (["--resize", "30"], ["--resize", "100"]):  # encoded again; passed through and stripped
        r = summary("src", "-o", f"o{args[1]}", *args)
        assert {p["name"]: p["dropped"] for p in r["profiles"]} == want, r["profiles"]
        assert not any(p["used"] for p in r["profiles"]) and r["notes"]["profile-dropped"] == sum(want.values())
        again = summary("src", "-o", f"o{args[1]}", *args)
        assert again["unchanged"] and again["profiles"] == r["profiles"]
        shown = {f["path"]: f.get("profile", "") for s in ls(f"o{args[1]}") for f in s["fields"]}
        assert shown["j00.jpg"] == shown["p01.png"] == "Wide World" and shown["none.jpg"] == ""
    text = pack("src", "-o", "o30", "--resize", "30").out
    assert "Display P3: 2" in text and "Wide World: 3" in text and "without a name: 1" in text, text


def test_more_profiles_than_the_table_holds():
    for i in range(20):
        write(f"src/{i:02}.jpg", jpeg(picture(60, 40, i), icc_profile=icc(f"Profile {i}")))
    r = summary("src", "-o", "out", "--resize", "30")
    assert len(r["profiles"]) == 16 and r["profiles"][-1]["name"] == "others"
    assert sum(p["dropped"] for p in r["profiles"]) == 20 and r["profiles"][-1]["dropped"] == 5


def test_names_that_lie_outside_of_the_profile():
    good = bytearray(icc("A name"))
    for i, (at, value) in enumerate(((136, 10**6), (140, 10**6), (128, 10**8), (152, 10**6), (152, 0), (0, 10**6))):
        bad = bytearray(good)
        bad[at:at + 4] = struct.pack(">I", value)
        write(f"src/{i}.jpg", jpeg(picture(60, 40, i), icc_profile=bytes(bad)))
    for i, (at, value) in enumerate(((152, 10**7), (156, 13), (164, 10**6), (168, 10**6))):
        bad = bytearray(icc("A name", 4))
        bad[at:at + 4] = struct.pack(">I", value)
        if at > 156:
            bad[at + 12:at + 16] = struct.pack(">I", value)
        write(f"src/m{i}.jpg", jpeg(picture(60, 40, i), icc_profile=bytes(bad)))
    write("src/ctl.jpg", jpeg(picture(60, 40, 50), icc_profile=icc("red\x1b[31m\nline")))
    write("src/long.jpg", jpeg(picture(60, 40, 51), icc_profile=icc("\u00e4" * 60, 4)))
    r = summary("src", "-o", "out", "--resize", "30")
    assert {p["name"]: p["dropped"] for p in r["profiles"]} == {"": 10, "red [31m line": 1, "\u00e4" * 23: 1}, r["profiles"]


def test_every_decision_is_counted():
    exif = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, 3, 1, 6, 0) + bytes(4)
    a = picture(80, 60, 1)
    write("src/turned.jpg", jpeg(a, exif=b"Exif\0\0" + exif))
    write("src/kept.jpg", jpeg(picture(20, 15, 2)))
    write("src/tail.jpg", jpeg(a) + b"tail")
    b = io.BytesIO()
    Image.fromarray(np.dstack([a, a[..., :1]]), "CMYK").save(b, "JPEG")
    write("src/cmyk.jpg", b.getvalue())
    save("src/clear.png", np.dstack([a, np.full((60, 80), 128, np.uint8)]))
    save("src/opaque.png", np.dstack([a, np.full((60, 80), 255, np.uint8)]))
    write("src/progressive.jpg", jpeg(picture(20, 15, 3), progressive=True))
    frames = [Image.fromarray(picture(40, 30, i)).quantize(16) for i in range(5)]
    frames[0].save("src/moves.gif", save_all=True, append_images=frames[1:])
    want = {"resized": 6, "rotated": 1, "copied": 2, "cmyk": 1, "flattened": 1, "alpha-dropped": 1, "tail-bytes": 1, "progressive": 1,
            "reencoded": 6, "first-frame": 1, "slow-path": 1}
    r = summary("src", "-o", "out", "--resize", "30", "--codec", "jpeg", "--image", "*")
    got = dict(r["notes"])
    for extra in ("stripped", "expanded"):
        got.pop(extra, None)
    assert got == want, got
    assert r["frames_dropped"] == 4
    # the same words, image by image
    shown = [n for s in ls("out") for f in s["fields"] for n in f["notes"]]
    assert {n: shown.count(n) for n in set(shown)} == r["notes"]
    text = pack("src", "-o", "out", "--resize", "30", "--codec", "jpeg", "--image", "*").out
    for note, n in want.items():
        assert any(line.split()[:2] == [str(n), note] and len(line.split()) > 3 for line in text.splitlines()), note
    assert "4 behind the first one of 1 files" in text, text


def test_every_note_has_a_word_and_a_meaning():
    """Each bit of enum image_note, as src/image.h has them: a word in doc/format.md, the same from --note, a meaning in the report."""
    root = os.environ.get("SLIMSET_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    head = open(os.path.join(root, "src/image.h")).read()
    bits = [int(line.split("1u <<")[1].split()[0].strip(",")) for line in head.splitlines() if " NOTE_" in line and "1u <<" in line]
    doc = {}
    for line in open(os.path.join(root, "doc/format.md")):
        cells = [c.strip() for c in line.split("|")]
        if len(cells) > 3 and cells[1].isdigit() and cells[2].startswith("`"):
            doc.setdefault(int(cells[1]), []).append(cells[2].strip("`"))
    report = open(os.path.join(root, "cmd/pack_report.c")).read()
    write("src/a.jpg", jpeg(picture(20, 15)))
    pack("src", "-o", "out")
    for bit in bits:
        assert f"[{bit}] = \"" in report, f"bit {bit} has no meaning in the report"
        assert any(run("ls", "out", "--note", w).returncode != 2 for w in doc[bit]), (bit, doc.get(bit))
    assert len(bits) > 25 and len(set(bits)) == len(bits)


def classes(kinds, n=40):
    """{class: function(i) -> (extension, bytes)} into src."""
    for name, make in kinds.items():
        for i in range(n):
            ext, data = make(i)
            write(f"src/{name}/{i:03}.{ext}", data)


def png(a):
    b = io.BytesIO()
    Image.fromarray(a).save(b, "PNG")
    return b.getvalue()


def test_what_goes_with_the_class_is_told():
    classes({"cat": lambda i: ("jpg", jpeg(picture(40, 30, i))), "dog": lambda i: ("png", png(picture(40, 30, i)))})
    r = summary("src", "-o", "out", "--resize", "100")
    traces = {t["what"]: t for t in r["class_traces"]}
    copied = traces["passed through, not encoded again"]
    assert (copied["high"], copied["high_with"], copied["high_images"]) == ("cat", 40, 40)
    assert (copied["low"], copied["low_with"], copied["low_images"]) == ("dog", 0, 40)
    assert "--reencode all" in copied["remedy"] and 0.9 < copied["v_squared"] <= 1
    files = [t for w, t in traces.items() if w.endswith("files")]
    assert len(files) == 1 and "--reencode all" in files[0]["remedy"] and len(traces) == 2, traces
    text = pack("src", "-o", "out", "--resize", "100").out
    assert "warning: the class can be told" in text and "40 of 40 in class cat, 0 of 40 in class dog" in text, text
    # the remedy works
    r = summary("src", "-o", "all", "--resize", "100", "--reencode", "all", "--quality", "40")
    assert [t["what"] for t in r["class_traces"]] == [files[0]["what"]], r["class_traces"]
    assert "--" not in r["class_traces"][0]["remedy"], "what was done is not advised once more"


def test_sizes_and_depths_that_go_with_the_class():
    deep = lambda i: ("png", png((picture(60, 40, i, channels=1).astype(np.uint16) * 257)))
    classes({"a": deep, "b": lambda i: ("png", png(picture(20, 15, i, channels=1)))}, 30)
    r = summary("src", "-o", "out", "--resize", "30", "--depth", "8:auto", "--image", "*")
    got = {t["what"]: (t["high"], t["low"]) for t in r["class_traces"]}
    assert got["made smaller"] == ("a", "b") and got["brought from 16 to 8 bits"] == ("a", "b"), got


def test_no_alarm_where_classes_are_alike():
    rng = np.random.default_rng(5)
    def mixed(seed):
        def make(i):
            a = picture(*((60, 40) if rng.random() < 0.5 else (20, 15)), 1000 * seed + i)
            return ("jpg", jpeg(a)) if rng.random() < 0.5 else ("png", png(a))
        return make
    classes({f"c{k:02}": mixed(k) for k in range(30)}, 22)
    r = summary("src", "-o", "out", "--resize", "30")
    assert r["class_traces"] == [], r["class_traces"]
    text = pack("src", "-o", "out", "--resize", "30").out
    assert "warning" not in text


def test_formats_without_loss_leave_no_trace_in_lossless_output():
    def bmp(i):
        b = io.BytesIO()
        Image.fromarray(picture(40, 30, i)).save(b, "BMP")
        return "bmp", b.getvalue()
    classes({"cat": bmp, "dog": lambda i: ("png", png(picture(40, 30, 100 + i)))}, 25)
    for codec in ("png", "raw", "jpeg"):
        r = summary("src", "-o", codec, "--codec", codec)
        assert r["classes"] == 2 and r["class_traces"] == [], r
    classes({"cow": lambda i: ("jpg", jpeg(picture(40, 30, 200 + i)))}, 25)
    for codec in ("png", "raw"):
        got = summary("src", "-o", codec + "2", "--codec", codec)["class_traces"]
        assert [(t["what"], t["high"]) for t in got] == [("jpeg files", "cow")], got


def test_shards_are_counted_as_files():
    options = "--quality", "80", "--min-ssim", "0.98", "--codec", "jpeg"
    for i in range(32):
        write(f"src/{i}.jpg", jpeg(picture(30, 20, i)))
        save(f"src/{i}.mask.png", (picture(30, 20, i, channels=1) > 99).astype(np.uint8))
    r = summary("src", "-o", "out", *options)
    assert (r["shards"], r["shards_written"], r["shards_kept"]) == (32, 32, 0), r
    for i in (4, 9, 20): # their shards become empty
        os.remove(f"src/{i}.jpg")
        os.remove(f"src/{i}.mask.png")
    r = summary("src", "-o", "out", *options)
    files = len([n for n in os.listdir("out") if n.endswith(".tar")])
    assert files == 29 and (r["shards"], r["shards_written"], r["shards_kept"]) == (29, 0, 29), r
    p = pack("src", "-o", "out", *options)
    assert "nothing had changed" in p.out and "0 written, 29 kept" in p.out and 'to_tuple("jpg", "mask.png")' in p.out, p.out
    p = pack("src", "-o", "out", *options[:3], "0.97", *options[4:], code=2)
    assert "min-ssim: 0.98 -> 0.97" in p.err, p.err


def test_one_odd_class_of_many_is_found_and_small_ones_are_left_alone():
    kinds = {f"c{k}": (lambda i, k=k: ("jpg", jpeg(picture(40, 30, 50 * k + i)))) for k in range(9)}
    kinds["odd"] = lambda i: ("png", png(picture(40, 30, 900 + i)))
    classes(kinds, 25)
    for i in range(10):
        write(f"src/tiny/{i}.bmp", b"")
        save(f"src/tiny/{i}.bmp", picture(40, 30, i))
    r = summary("src", "-o", "out", "--resize", "100")
    assert {(t["low"] if "through" in t["what"] else t["high"]) for t in r["class_traces"]} & {"odd"}, r["class_traces"]
    assert not any("tiny" in (t["high"], t["low"]) for t in r["class_traces"])


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
