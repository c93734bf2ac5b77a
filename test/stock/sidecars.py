# SPDX-License-Identifier: Apache-2.0
"""Files beside the shards: DALI's index (--dali-idx) read by DALI's own rules, Energon's (--energon) by Energon's; and
that they come, change and go with the option and the shards."""
import io
import json
import os
import struct
import tarfile

from _frame import files, jpeg, ls, main, members, pack, photos, picture, run, write


def dali_parse(path):
    """DALI's reader of an index file, step by step: getline, then operator>> (words at blanks) until the line ends.
    [[(ext, offset, size, filename)]] one list a sample."""
    with open(path, newline="") as f:
        lines = f.read().split("\n")
    version, count = lines[0].split()[:2]
    assert version in ("v1.1", "v1.2"), version
    count = int(count)
    assert count > 0
    samples = []
    for line in lines[1:1 + count]:
        words = iter(line.split())
        components = []
        for ext in words:
            offset, size = int(next(words)), int(next(words))
            assert offset % 512 == 0, line
            components.append((ext, offset, size, next(words) if version == "v1.2" else ""))
        assert components, "a sample without components"
        samples.append(components)
    assert len(samples) == count and lines[1 + count:] == [""]
    return samples


def wds2idx(tar_path):
    """The lines that DALI's own tool makes of a tar: consecutive members whose names agree up to the first dot of the
    last component are one sample."""
    samples, last = [], None
    with tarfile.open(tar_path) as t:
        for m in t:
            folder, slash, base = m.name.rpartition("/")
            stem, _, ext = base.partition(".")
            key = folder + slash + stem
            if key != last:
                samples.append([])
                last = key
            samples[-1].append((ext, m.offset_data, m.size, m.name))
    return samples


def shards(out):
    return sorted(n for n in os.listdir(out) if n.endswith(".tar"))


def source():
    photos("src/train", 40)
    photos("src/val", 6, seed=700)
    for d in ("src/train/cat", "src/val/dog"):
        for n in os.listdir(d):
            write(f"{d}/{n[:-4]}.json", b'{"a": 1}')


def test_dali_index():
    source()
    write("src/train/cat/" + "n" * 120 + ".jpg", jpeg(picture(80, 60)))  # a name that needs ustar's prefix
    pack("src", "-o", "out", "--resize", "64", "--dali-idx")
    for name in shards("out"):
        got = dali_parse(f"out/{name[:-4]}.idx")
        assert got == wds2idx(f"out/{name}"), name
        with open(f"out/{name}", "rb") as f:
            raw = f.read()
        with tarfile.open(f"out/{name}") as t:
            want = {m.name: t.extractfile(m).read() for m in t}
        assert {c[3]: raw[c[1]:c[1] + c[2]] for s in got for c in s} == want
    assert sum(len(dali_parse(f"out/{n[:-4]}.idx")) for n in shards("out")) == len(ls("out"))
    p = run("verify", "out", code=0)
    assert "not part" not in p.out + p.err


def test_a_blank_is_refused_before_the_work():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as t:
        for i in range(3):
            for ext, data in (("jpg", jpeg(picture(64, 48, i))), ("cls", b"1")):
                m = tarfile.TarInfo(f"a b{i}.{ext}")
                m.size = len(data)
                t.addfile(m, io.BytesIO(data))
    write("src.tar", buffer.getvalue())
    pack("src.tar", "-o", "plain")
    assert "a b0.jpg" in members("plain")
    p = pack("src.tar", "-o", "out", "--dali-idx", code=2)
    assert '"a b0"' in p.err and "blank" in p.err, p.err
    assert not os.path.exists("out")
    p = pack("src.tar", "-o", "plain", "--dali-idx", code=2)
    assert "blank" in p.err
    run("verify", "plain", code=0)


def test_not_for_a_tree():
    photos("src", 4)
    p = pack("src", "-o", "out", "--to", "tree", "--dali-idx", code=2)
    assert "--dali-idx" in p.err and not os.path.exists("out")


def test_energon_index():
    source()
    pack("src", "-o", "out", "--resize", "64", "--energon")
    rows, n = ls("out"), 0
    for name in shards("out"):
        with open(f"out/{name}", "rb") as f:
            raw = f.read()
        with open(f"out/{name}.idx", "rb") as f:
            idx = f.read()
        offsets = struct.unpack(f"={len(idx) // 8}Q", idx)
        assert raw[offsets[-1]:] == bytes(1024)
        for begin, end in zip(offsets, offsets[1:]):  # each slice is a tar of one sample
            with tarfile.open(fileobj=io.BytesIO(raw[begin:end] + bytes(1024))) as t:
                names = t.getnames()
            assert names == [f"{rows[n]['key']}.{f['name']}" for f in rows[n]["fields"]], names
            n += 1
    assert n == len(rows)
    with open("out/.nv-meta/.info.json") as f:
        info = json.load(f)
    assert list(info["shard_counts"]) == shards("out") and sum(info["shard_counts"].values()) == len(rows)
    for name, count in info["shard_counts"].items():
        with tarfile.open(f"out/{name}") as t:
            assert count == len({m.name.split(".")[0] for m in t}), name
    split = yaml_of("out/.nv-meta/split.yaml")
    assert split == {"exclude": [], "split_parts": {"train": [s for s in shards("out") if s.startswith("train")],
                                                    "val": [s for s in shards("out") if s.startswith("val")], "test": []}}
    assert yaml_of("out/.nv-meta/dataset.yaml") == {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    p = run("verify", "out", code=0)
    assert "not part" not in p.out + p.err


def yaml_of(path):
    import yaml
    with open(path) as f:
        return yaml.safe_load(f)


def test_they_come_and_go_with_the_option():
    source()
    pack("src", "-o", "out", "--resize", "64")
    plain = files("out")
    times = {n: os.stat(f"out/{n}").st_mtime_ns for n in shards("out")}
    pack("src", "-o", "out", "--resize", "64", "--dali-idx", "--energon")
    assert {n: os.stat(f"out/{n}").st_mtime_ns for n in shards("out")} == times, "no shard is made again"
    both = files("out")
    added = set(both) - set(plain)
    assert added == {n[:-4] + ".idx" for n in times} | {n + ".idx" for n in times} | {
        ".nv-meta/.info.json", ".nv-meta/split.yaml", ".nv-meta/dataset.yaml"}
    pack("src", "-o", "fresh", "--resize", "64", "--dali-idx", "--energon", "-j", "1")
    assert files("fresh") == both
    pack("src", "-o", "out", "--resize", "64", "--energon")
    assert not any(n.endswith(".idx") and not n.endswith(".tar.idx") for n in files("out"))
    pack("src", "-o", "out", "--resize", "64")
    assert files("out") == plain and not os.path.exists("out/.nv-meta")


def test_they_follow_the_shards():
    source()
    args = ("-o", "out", "--resize", "64", "--dali-idx", "--energon")
    pack("src", *args)
    before = {n: os.stat(f"out/{n}").st_mtime_ns for n in os.listdir("out")}
    os.remove("src/train/cat/0000.jpg")
    os.remove("src/train/cat/0000.json")
    pack("src", *args)
    for name in shards("out"):
        assert dali_parse(f"out/{name[:-4]}.idx") == wds2idx(f"out/{name}")
    same = [n for n in shards("out") if os.stat(f"out/{n}").st_mtime_ns == before[n]]
    assert same and all(os.stat(f"out/{n[:-4]}.idx").st_mtime_ns == before[n[:-4] + ".idx"] for n in same)
    # the shard whose only sample went has neither file nor index
    gone = set(before) - set(os.listdir("out"))
    assert all(n[:-4] + ".idx" in gone for n in gone if n.endswith(".tar"))
    golden = files("out")
    victim = shards("out")[0][:-4] + ".idx"
    write(f"out/{victim}", b"v1.2 1\njpg 512 3 x.jpg\n")
    os.remove(f"out/{shards('out')[1]}.idx")
    p = run("verify", "out", code=4)
    assert victim in p.out + p.err and shards("out")[1] + ".idx" in p.out + p.err
    pack("src", *args)
    assert files("out") == golden
    run("verify", "out", code=0)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
