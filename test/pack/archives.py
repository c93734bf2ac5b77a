# SPDX-License-Identifier: Apache-2.0
"""Archives read in place give what the folder gives; nesting; WebDataset input; judged by zipfile, tarfile and GNU tar.
Runs with SLIMSET_IN_PROCESS as well."""
import gzip
import io
import json
import lzma
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile

from _frame import IN_PROCESS, SLIMSET, files, jpeg, ls, main, members, pack, photos, picture, rejects, run, write


def tar_of(folder, path, fmt=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=fmt) as t:
        for d, _, names in sorted(os.walk(folder)):
            for n in sorted(names):
                p = os.path.join(d, n)
                t.add(p, os.path.relpath(p, folder))


def zip_of(folder, path, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as z:
        for d, _, names in sorted(os.walk(folder)):
            for n in sorted(names):
                p = os.path.join(d, n)
                z.write(p, os.path.relpath(p, folder))


def test_every_archive_gives_what_the_folder_gives():
    photos("src", 40)
    write("src/cat/0000.txt", b"a caption\n")
    pack("src", "-o", "golden", "--resize", "96")
    golden = files("golden")
    tar_of("src", "a.tar")
    tar_of("src", "pax.tar", tarfile.PAX_FORMAT)
    zip_of("src", "a.zip")
    zip_of("src", "stored.zip", zipfile.ZIP_STORED)
    data = open("a.tar", "rb").read()
    write("a.tar.gz", gzip.compress(data[:100000]) + gzip.compress(data[100000:]))  # two members
    write("a.tar.xz", lzma.compress(data))
    subprocess.run(["zstd", "-q", "a.tar"], check=True)
    for name in ("a.tar", "pax.tar", "a.zip", "stored.zip", "a.tar.gz", "a.tar.xz", "a.tar.zst"):
        shutil.rmtree("out", ignore_errors=True)
        p = pack(name, "-o", "out", "--resize", "96")
        assert members("out") == members("golden"), name
        assert {k: v for k, v in files("out").items() if k.endswith(".tar")} == {k: v for k, v in golden.items() if k.endswith(".tar")}, name
        assert ("unpacking it once" in p.err) == (name.count(".") == 2), p.err
        run("verify", "out", "--decode", code=0)


def frame(data, window_log):
    """A zstd frame that asks for a window of that size, its blocks stored."""
    blocks = [data[i:i + (1 << 17)] for i in range(0, len(data), 1 << 17)]
    body = b"".join(struct.pack("<I", len(b) << 3 | (i == len(blocks) - 1))[:3] + b for i, b in enumerate(blocks))
    return struct.pack("<IBB", 0xFD2FB528, 0, (window_log - 10) << 3) + body


def test_a_window_of_2_gib_is_refused_in_little_memory():
    photos("src", 6)
    tar_of("src", "a.tar")
    data = open("a.tar", "rb").read()
    for log in (27, 31):
        write(f"w{log}.tar.zst", frame(data, log))
        said = subprocess.run(["zstd", "-lv", f"w{log}.tar.zst"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout
        assert str(1 << log).encode() in said, said  # another reader's word for it
    # the same frame with the window that is allowed, so that nothing else is wrong with it
    assert subprocess.run(["zstd", "-dc", "w27.tar.zst"], stdout=subprocess.PIPE, check=True).stdout == data
    pack("w27.tar.zst", "-o", "good")
    pack("a.tar", "-o", "golden")
    assert members("good") == members("golden")
    with open("err", "wb") as e:
        pid = os.posix_spawn(SLIMSET, [SLIMSET, "pack", "w31.tar.zst", "-o", "out", *(["--in-process"] if IN_PROCESS else [])],
                             os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, e.fileno(), 2)])
    _, status, used = os.wait4(pid, 0)
    err = open("err").read()
    assert os.waitstatus_to_exitcode(status) == 2, (status, err)
    assert "w31.tar.zst" in err and "window" in err, err
    assert not os.path.exists("out/slimset.index")
    if not IN_PROCESS:  # a sanitizer's memory is not slimset's
        assert used.ru_maxrss < 128 << 10, used.ru_maxrss  # of it and of its children


def test_tar_of_tars_and_zip_of_zips():
    photos("src", 12, classes=("n01440764", "n01443537"))
    with tarfile.open("train.tar", "w") as outer:
        for c in ("n01440764", "n01443537"):
            tar_of(f"src/{c}", f"{c}.tar")
            outer.add(f"{c}.tar")
    zip_of("src/n01440764", "n01440764.zip")
    zip_of("src/n01443537", "n01443537.zip")
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(f"z{method}.zip", "w", method) as z:
            z.write("n01440764.zip")
            z.write("n01443537.zip")
    pack("src", "-o", "golden")
    for i, name in enumerate(("train.tar", "z0.zip", "z8.zip")):
        pack(name, "-o", f"out{i}")
        assert members(f"out{i}") == members("golden"), name


def test_inner_archives_whose_names_are_dots():
    """What is left of "...zip" without its suffix leads upwards: there the whole name is the folder."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as z:
        z.writestr("x.jpg", jpeg(picture(8, 8)))
    names = ["...zip", "..zip", "d/.zip", "d/..zip", "d/...zip", "....zip", "e/a...zip"]
    with zipfile.ZipFile("dots.zip", "w") as z:
        for name in names:
            z.writestr(name, inner.getvalue())
    pack("dots.zip", "-o", "dots")
    got = {f["path"] for s in ls("dots") for f in s["fields"]}
    want = {"...zip/x.jpg", "..zip/x.jpg", "d/..zip/x.jpg", "d/...zip/x.jpg", ".../x.jpg", "e/a../x.jpg"}
    assert got == want, got ^ want
    assert [r["path"] for r in ls("dots", "--left-out")] == ["d/.zip"]


def test_webdataset_input_keeps_keys_and_fields():
    want = {}
    with tarfile.open("train-000.tar", "w") as t:
        for i in range(40):
            for ext, data in (("jpg", jpeg(picture(160, 120, i))), ("cls", b"%d" % (i % 3)),
                              ("meta.json", json.dumps({"i": i}).encode()), ("seg.mask.png", b"")):
                if not data:
                    continue
                name = f"part/Sample {i:03d}.{ext}"
                m = tarfile.TarInfo(name)
                m.size = len(data)
                t.addfile(m, io.BytesIO(data))
                want[name] = data
    p = pack("train-000.tar", "-o", "out")
    assert "is WebDataset" in p.err
    assert members("out") == want
    assert {s["split"] for s in ls("out")} == {"train"}
    pack("train-000.tar", "-o", "small", "--resize", "80")
    got = members("small")
    assert got.keys() == want.keys()
    assert all(got[k] == want[k] for k in want if not k.endswith(".jpg"))


def test_several_sources_get_their_names():
    photos("one", 6)
    photos("two", 6, seed=50)
    zip_of("two", "two.zip")
    pack("one", "two.zip", "-o", "out")
    keys = {s["key"] for s in ls("out")}
    assert "one/cat/0000" in keys and "two/dog/0001" in keys and len(keys) == 12


def test_files_from():
    photos("src", 6)
    write("list", b"src/cat/0000.jpg\nsrc/dog/0001.jpg\n./src/cat/0002.jpg\n")
    pack("--files-from", "list", "-o", "a")
    assert sorted(s["key"] for s in ls("a")) == ["src/cat/0000", "src/cat/0002", "src/dog/0001"]
    write("src/new\nline.jpg", jpeg(picture(40, 30)))
    pack("--files-from", "-", "-0", "-o", "b", stdin=b"src/cat/0000.jpg\0src/new\nline.jpg\0")
    assert len(ls("b")) == 2
    p = run("pack", "--files-from", "-", "-o", "c", stdin=b"src/absent.jpg\n", code=2)
    assert "src/absent.jpg" in p.err


def test_bad_members_are_rejected_one_by_one():
    photos("src", 6)
    zip_of("src", "a.zip", zipfile.ZIP_STORED)
    data = bytearray(open("a.zip", "rb").read())
    victim = open("src/cat/0002.jpg", "rb").read()
    at = bytes(data).index(victim)
    data[at + len(victim) // 2] ^= 0x55
    write("a.zip", data)
    pack("a.zip", "-o", "out", code=3)
    r = rejects("out")
    assert list(r) == ["cat/0002.jpg"] and r["cat/0002.jpg"]["class"] == "checksum", r
    assert len(ls("out")) == 5
    with tarfile.open("links.tar", "w") as t:
        t.add("src/cat/0000.jpg", "a.jpg")
        for name, kind, link in (("hard.jpg", tarfile.LNKTYPE, "a.jpg"), ("soft.jpg", tarfile.SYMTYPE, "/etc/passwd"),
                                 ("fifo.jpg", tarfile.FIFOTYPE, ""), ("dev.jpg", tarfile.CHRTYPE, "")):
            m = tarfile.TarInfo(name)
            m.type, m.linkname = kind, link
            t.addfile(m)
        m = tarfile.TarInfo("../../escape.jpg")
        m.size = 3
        t.addfile(m, io.BytesIO(b"xyz"))
    pack("links.tar", "-o", "links", code=3)
    got = {k: v["class"] for k, v in rejects("links").items()}
    assert got["soft.jpg"] == "link" and got["fifo.jpg"] == "not-regular" and got["dev.jpg"] == "not-regular", got
    assert any(v == "name" for v in got.values()), got
    assert {s["key"] for s in ls("links")} == {"a", "hard"}
    assert not os.path.exists("../escape.jpg")


def test_truncated_archives_say_so():
    photos("src", 30)
    tar_of("src", "a.tar")
    data = open("a.tar", "rb").read()
    write("cut.tar", data[:len(data) // 2])
    p = pack("cut.tar", "-o", "out", code=None)
    assert p.returncode in (0, 3) and ("end-of-archive" in p.err or "before" in p.err), (p.returncode, p.err)
    assert 0 < len(ls("out")) < 30
    write("cut.tar.gz", gzip.compress(data)[:20000])
    p = pack("cut.tar.gz", "-o", "gz", code=2)
    assert "cut.tar.gz" in p.err and "truncated" in p.err.lower() or "ends" in p.err, p.err
    write("no.zip", b"")
    p = pack("no.zip", "-o", "zero", code=2)
    assert "no.zip" in p.err, p.err


def test_gnu_tar_reads_the_shards():
    photos("src", 40)
    pack("src", "-o", "out", "--resize", "96")
    got = {}
    for n in sorted(os.listdir("out")):
        if not n.endswith(".tar"):
            continue
        os.makedirs("x", exist_ok=True)
        p = subprocess.run(["tar", "-xvf", f"out/{n}", "-C", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        assert not p.stderr, p.stderr
    for k, v in members("out").items():
        assert open(f"x/{k}", "rb").read() == v
        got[k] = v
    payload = sum(map(len, got.values()))
    shards = [n for n in os.listdir("out") if n.endswith(".tar")]
    total = sum(os.path.getsize(f"out/{n}") for n in shards)
    assert total - payload <= 1024 * len(got) + 1024 * len(shards)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
