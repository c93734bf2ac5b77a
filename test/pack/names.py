# SPDX-License-Identifier: Apache-2.0
"""Names that other programs take for the same: composed and decomposed letters, upper and lower case, bytes that are no UTF-8, dots.
Every file is there once, under a key of its own, with its own bytes; judged by tarfile and by WebDataset's rule for keys."""
import os
import re
import unicodedata

from _frame import jpeg, ls, main, members, pack, picture, run, write

NFC, NFD = (unicodedata.normalize(f, "caf\u00e9.jpg").encode() for f in ("NFC", "NFD"))
LATIN1 = b"caf\xe9.jpg"
ALONE = [NFC, NFD, LATIN1, b"A.jpg", b"D/x.jpg", b"d/x.jpg", b"new\nline.jpg", b"tab\there.jpg", b"quote'\".jpg", b"-dash.jpg",
         b"comma,semi;.jpg", b"v1.2/0001.jpg"]
TOGETHER = [b"a.JPG", b"a.b.c.jpg", b"a.d.jpg", b"a.jpg", b"a.png"]  # one sample: the others' stem begins with "a."
WDS_KEY = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)


def source():
    made = {}
    for i, name in enumerate(sorted(ALONE + TOGETHER)):
        made[name] = jpeg(picture(40, 30, i))
        write(b"src/" + name, made[name])
    return made


def fields(out):
    """{path in the source: (key, field)}, as the index has them."""
    return {os.fsencode(f["path"]): (s["key"], f["name"]) for s in ls(out) for f in s["fields"]}


def test_no_name_is_taken_for_another():
    assert NFC != NFD
    made = source()
    pack("src", "-o", "out")
    found = fields("out")
    assert set(found) == set(made), set(made) ^ set(found)
    assert len(set(found.values())) == len(made), found  # no field of any key twice
    assert len({found[n][0] for n in ALONE}) == len(ALONE)
    assert len({found[n][0] for n in TOGETHER}) == 1
    run("verify", "out", "--decode", code=0)
    # what a tar holds, read by Python: members() refuses a name that is there twice
    tar = members("out")
    assert len(tar) == len(made)
    assert sorted(tar.values()) == sorted(made.values())
    keys = {}
    for name, data in tar.items():
        key, field = WDS_KEY.match(name).groups()
        keys.setdefault(key, {})[field] = data
    assert len(keys) == len(ALONE) + 1, sorted(keys)
    for path, (key, field) in found.items():
        assert any(key == k and v.get(field) == made[path] for k, v in keys.items()), (path, key, field)


def test_trees_keep_every_byte_of_a_name():
    made = source()
    pack("src", "-o", "out", "--to", "tree")
    found = {}
    for d, dirs, names in os.walk(b"out"):
        dirs[:] = [x for x in dirs if x != b".slimset"]
        for n in names:
            with open(os.path.join(d, n), "rb") as f:
                found[os.path.relpath(os.path.join(d, n), b"out")] = f.read()
    found.pop(b"slimset.index")
    assert found == made, set(found) ^ set(made)
    assert set(fields("out")) == set(made)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
