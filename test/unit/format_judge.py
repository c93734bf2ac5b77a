#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the index format by a reader that knows nothing but doc/format.md.

The record layouts are read from the document's tables, the hash is computed here, tar files are read by Python's tarfile. Then the verbs
ls, get and verify are asked about the same datasets. Without $SLIMSET_BUILD a tool is compiled with $CC below $TMPDIR.
Prints "ok NAME" / "FAIL NAME: ..." lines; exit status 1 when something failed.
"""
import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.environ.get("SLIMSET_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOC = open(os.path.join(ROOT, "doc/format.md")).read()
failures = 0


def judge(name, fn):
    global failures
    try:
        fn()
        print("ok", name, flush=True)
    except Exception as e:  # any fault is this test's
        failures += 1
        print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)


def same(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, should be {want!r}")


# ---- XXH3, 64 bits, seed 0 -------------------------------------------------------------------------------

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
PMX1, PMX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def r32(b, i): return struct.unpack_from("<I", b, i)[0]
def r64(b, i): return struct.unpack_from("<Q", b, i)[0]
def rotl(v, n): return ((v << n) | (v >> (64 - n))) & M64
def swap64(v): return int.from_bytes(v.to_bytes(8, "little"), "big")


def fold(a, b):
    p = a * b
    return (p ^ (p >> 64)) & M64


def avalanche(h):
    h ^= h >> 37
    h = h * PMX1 & M64
    return h ^ (h >> 32)


def avalanche64(h):
    h ^= h >> 33
    h = h * P64[1] & M64
    h ^= h >> 29
    h = h * P64[2] & M64
    return h ^ (h >> 32)


def mix16(b, i, s):
    return fold(r64(b, i) ^ r64(SECRET, s), r64(b, i + 8) ^ r64(SECRET, s + 8))


def xxh3(b):
    n = len(b)
    if n == 0:
        return avalanche64(r64(SECRET, 56) ^ r64(SECRET, 64))
    if n <= 3:
        c = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return avalanche64(c ^ (r32(SECRET, 0) ^ r32(SECRET, 4)))
    if n <= 8:
        h = (r32(b, n - 4) + (r32(b, 0) << 32)) ^ (r64(SECRET, 8) ^ r64(SECRET, 16))
        h ^= rotl(h, 49) ^ rotl(h, 24)
        h = h * PMX2 & M64
        h ^= (h >> 35) + n
        h = h * PMX2 & M64
        return h ^ (h >> 28)
    if n <= 16:
        lo = r64(b, 0) ^ (r64(SECRET, 24) ^ r64(SECRET, 32))
        hi = r64(b, n - 8) ^ (r64(SECRET, 40) ^ r64(SECRET, 48))
        return avalanche((n + swap64(lo) + hi + fold(lo, hi)) & M64)
    if n <= 128:
        h = n * P64[0]
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(b, 16 * i, 32 * i) + mix16(b, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & M64)
    if n <= 240:
        h = n * P64[0]
        for i in range(8):
            h += mix16(b, 16 * i, 16 * i)
        h = avalanche(h & M64)
        for i in range(8, n // 16):
            h += mix16(b, 16 * i, 16 * (i - 8) + 3)
        h += mix16(b, n - 16, 136 - 17)
        return avalanche(h & M64)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def stripe(i, s):
        for k in range(8):
            v = r64(b, i + 8 * k)
            key = v ^ r64(SECRET, s + 8 * k)
            acc[k ^ 1] = (acc[k ^ 1] + v) & M64
            acc[k] = (acc[k] + (key & 0xffffffff) * (key >> 32)) & M64

    stripes = (len(SECRET) - 64) // 8
    blocks = (n - 1) // (64 * stripes)
    for block in range(blocks):
        for k in range(stripes):
            stripe((block * stripes + k) * 64, 8 * k)
        for k in range(8):
            a = acc[k]
            acc[k] = ((a ^ (a >> 47) ^ r64(SECRET, len(SECRET) - 64 + 8 * k)) * P32[0]) & M64
    for k in range((n - 1 - 64 * stripes * blocks) // 64):
        stripe((blocks * stripes + k) * 64, 8 * k)
    stripe(n - 64, len(SECRET) - 64 - 7)
    h = n * P64[0]
    for k in range(4):
        h += fold(acc[2 * k] ^ r64(SECRET, 11 + 16 * k), acc[2 * k + 1] ^ r64(SECRET, 19 + 16 * k))
    return avalanche(h & M64)


# ---- the document ----------------------------------------------------------------------------------------

def chapter(title):
    m = re.search(rf"^(#+) {re.escape(title)}.*?$(.*?)(?=^#|\Z)", DOC, re.S | re.M)
    return m.group(2)


def rows(title):
    """Cells of the first table of a chapter, without its two heading lines."""
    lines = [l for l in chapter(title).split("\n") if l.startswith("|")]
    return [[c.strip() for c in l.strip("|").split("|")] for l in lines[2:]]


CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "str": "Q"}


def layout(title):
    """(struct format, names, names of str members) from a table of members."""
    form, names, strings, at = "<", [], [], 0
    for offset, kind, name, *_ in rows(title):
        same(int(offset), at, f"{title}: offset of {name}")
        m = re.match(r"char\[(\d+)\]", kind)
        code = f"{m.group(1)}s" if m else CODES[kind]
        form += code
        at += struct.calcsize("<" + code)
        names.append(name)
        if kind == "str":
            strings.append(name)
    said = re.search(rf"^#+ {re.escape(title)}, (\d+) bytes", DOC, re.M)
    same(at, int(said.group(1)), f"{title}: size")
    return form, names, strings


def numbers(title):
    """number -> word; they have to be complete and in order."""
    found = [(int(r[0]), r[1].strip("`")) for r in rows(title)]
    same([n for n, _ in found], list(range(len(found))), f"{title}: numbers")
    return [w for _, w in found]


SECTIONS = ("SPLT", "CLAS", "FLDS", "SHRD", "PART", "SAMP", "FILD", "REJS", "KEYS")


class Index:
    """Reads and checks as the document says; any fault is an AssertionError."""

    def record(self, title, at):
        form, names, _ = layout(title)
        return dict(zip(names, struct.unpack_from(form, self.b, at)))

    def __init__(self, data):
        self.b = b = data
        assert len(b) >= 144, "size"
        h = self.h = self.record("Header", 0)
        same(h["magic"], b"slimset\0", "magic")
        same(h["header_hash"], xxh3(b[:120]), "header_hash")
        same(h["version"], 1, "version")
        same(h["file_bytes"], len(b), "file_bytes")
        same((h["header_bytes"], h["table_offset"], h["kind"]), (128, 128, 1), "header")
        end, n = h["sums_offset"], h["n_blocks"]
        same((end % 8, n, end + 8 * n + 16), (0, (end - 128 + 65535) // 65536, len(b)), "sums")
        same(self.record("Tail", len(b) - 16), {"file_bytes": len(b), "magic": b"slimset."}, "tail")
        sums = b[end:end + 8 * n]
        same(h["sums_hash"], xxh3(sums), "sums_hash")
        for i in range(n):
            block = b[128 + 65536 * i:min(128 + 65536 * (i + 1), end)]
            same(xxh3(block), r64(sums, 8 * i), f"block {i}")
        table, at = {}, 128 + 32 * h["n_sections"]
        for i in range(h["n_sections"]):
            s = self.record("Section table", 128 + 32 * i)
            assert s["offset"] % 8 == 0 and s["offset"] >= at and s["offset"] + s["bytes"] <= end, s
            same(s["bytes"], s["count"] * s["record_bytes"], "bytes")
            same(b[at:s["offset"]].strip(b"\0"), b"", "gap")
            at = s["offset"] + s["bytes"]
            table[s["id"].decode()] = s
        same(b[at:end].strip(b"\0"), b"", "gap")
        s = table["STRS"]
        self.strings = b[s["offset"]:s["offset"] + s["bytes"]]
        s = table["META"]
        self.meta = dict(l.split("=", 1) for l in b[s["offset"]:s["offset"] + s["bytes"]].decode().splitlines())
        for name in SECTIONS:
            setattr(self, name, [self.named(name, table[name]["offset"] + i * table[name]["record_bytes"])
                                 for i in range(table[name]["count"])])
        same([(k["hash"], k["sample"]) for k in self.KEYS],
             sorted((xxh3(s["key"]), i) for i, s in enumerate(self.SAMP)), "KEYS")

    def named(self, title, at):
        r = self.record(title, at)
        for name in layout(title)[2]:
            n, offset = r[name] >> 40, r[name] & ((1 << 40) - 1)
            assert offset + n <= len(self.strings), (title, name)
            r[name] = self.strings[offset:offset + n]
        return r


# ---- the tool and the program ----------------------------------------------------------------------------

scratch = tempfile.mkdtemp(prefix="format_judge.")


def build_tool():
    """By hand: a tool that also answers the verbs."""
    tool = os.path.join(scratch, "format_tool")
    src = ["index_write", "index_read", "tar_write", "tar_check", "verify", "verify_index", "verify_part",
           "verify_foreign", "reader", "dataset", "names", "sniff", "base/buf", "base/err", "base/io", "base/hash"]
    cmd = ["cmd_ls", "cmd_get", "cmd_verify", "print", "options", "option_table", "text", "help", "manual"]
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-D_GNU_SOURCE", '-DSLIMSET_VERSION="0.1.0"', "-O1",
                    "-DFORMAT_TOOL_VERBS", "-Isrc", "-Iinclude", "-Icmd", "-Itest/unit", "test/unit/format_tool.c",
                    *(f"src/{f}.c" for f in src), *(f"cmd/{f}.c" for f in cmd), "-o", tool], cwd=ROOT, check=True)
    return tool


build = os.environ.get("SLIMSET_BUILD")
tool = os.path.join(build, "format_tool") if build else ""
program = os.environ.get("SLIMSET", "")
if not os.access(tool, os.X_OK) or not os.access(program, os.X_OK):
    tool = program = build_tool()


def slimset(*args):
    p = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"})
    return p.returncode, p.stdout, p.stderr.decode("utf-8", "backslashreplace")


def make(kind, each=0):
    folder = os.path.join(scratch, f"{kind}{each}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    subprocess.run([tool, kind, folder, str(each)], check=True)
    return folder


def read_index(folder):
    with open(os.path.join(folder, "slimset.index"), "rb") as f:
        return Index(f.read())


# ---- judgements ------------------------------------------------------------------------------------------

def judge_hash():
    same(xxh3(b""), 0x2d06800538d394c2, "hash of nothing")  # published values
    same(xxh3(b"a"), 0xe6c632b61e964e1f, "hash of a")
    same(xxh3(b"abc"), 0x78af5f94892f3950, "hash of abc")


def judge_tables_of_numbers():
    """The document's numbers are those of the sources."""
    image_h = open(os.path.join(ROOT, "src/image.h")).read()
    names_c = open(os.path.join(ROOT, "src/names.c")).read()
    err_c = open(os.path.join(ROOT, "src/base/err.c")).read()
    enum = re.sub(r"/\*.*?\*/", "", re.search(r"enum image_format \{(.*?)\}", image_h, re.S).group(1), flags=re.S)
    formats = [f for f in re.findall(r"FORMAT_(\w+)", enum) if f != "COUNT"]
    same([w.upper().replace("-", "_") for w in numbers("Formats")], formats, "formats")
    bits = [(int(b), n) for n, b in re.findall(r"NOTE_(\w+)\s*= 1u << (\d+)", image_h)]
    same([(i, w.upper().replace("-", "_")) for i, w in enumerate(numbers("Notes"))], bits, "notes")
    table = re.search(r"name_note\(.*?\{.*?\{(.*?)\};", names_c, re.S).group(1)
    same(re.findall(r'"([^"]+)"', table), numbers("Notes"), "words of notes")
    same(re.findall(r'\[SLIMSET_REJECT_\w+\] = "([^"]+)"', err_c), numbers("Rejects"), "rejects")
    for title, prefix in (("Roles", "ROLE"), ("Codecs", "CODEC")):
        words = re.findall(rf'\[SLIMSET_{prefix}_(\w+)\] = "([^"]+)"', names_c)
        same([w for _, w in words], numbers(title), title)
        same([n.lower().replace("_", "-") for n, _ in words], numbers(title), title)


def judge_members():
    """The document's tables are the structs of format.h."""
    header = open(os.path.join(ROOT, "include/slimset/format.h")).read()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    kinds = {"uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "int32_t": "i32", "slimset_str": "str"}
    for struct_name, title in (("header", "Header"), ("section", "Section table"), ("split", "SPLT"), ("class", "CLAS"),
                               ("field_rule", "FLDS"), ("shard", "SHRD"), ("part", "PART"), ("sample", "SAMP"),
                               ("field", "FILD"), ("reject_record", "REJS"), ("key", "KEYS")):
        members = []
        for kind, names in re.findall(r"(\w+) ([^;]+);", re.search(rf"struct slimset_{struct_name} \{{(.*?)\}}", header, re.S).group(1)):
            for name in names.split(","):
                name, _, n = name.strip().partition("[")
                members.append((f"char[{n[:-1]}]" if n else kinds[kind], name))
        same([(r[1], r[2]) for r in rows(title)], members, title)


def judge_example():
    folder = make("example")
    data = open(os.path.join(folder, "slimset.index"), "rb").read()
    dump, at, fill = bytearray(), 0, b""
    for line in re.search(r"```\n(0000.*?)```", DOC, re.S).group(1).splitlines():
        if line == "*":
            fill = bytes(dump[-16:])
            continue
        at = int(line[:8], 16)
        while len(dump) < at:
            dump += fill
        dump += bytes.fromhex(line[8:].split("|")[0])
    same(bytes(dump), data, "the hexdump of the document")
    ix = Index(data)
    same(len(ix.SAMP), 1)
    same(ix.SAMP[0]["key"], b"cat/0001")
    jpg, cls = ix.FILD
    same((jpg["name"], jpg["path"], jpg["offset"], jpg["bytes"], jpg["in_bytes"]), (b"jpg", b"cat/0001.JPG", 512, 17, 68))
    same((jpg["w"], jpg["h"], jpg["in_w"], jpg["in_h"], jpg["quality"]), (32, 24, 64, 48, 90))
    same([w for i, w in enumerate(numbers("Notes")) if jpg["notes"] >> i & 1], ["reencoded", "resized"])
    same((cls["path"], numbers("Roles")[cls["role"]], cls["offset"]), (b"", "label", 1536))
    same((ix.REJS[0]["path"], numbers("Rejects")[ix.REJS[0]["reject"]]), (b"cat/0002.jpg", "truncated"))
    same(ix.FLDS[0]["ratio_q16"] / 65536, 0.25)
    same(ix.meta, {"tool": "slimset 0.1.0", "layout": "shards"})


def judge_shards():
    """Several blocks; every member where the index says, as tarfile sees it."""
    folder = make("shards", 150)
    ix = read_index(folder)
    assert ix.h["n_blocks"] > 3, ix.h["n_blocks"]
    same([s["name"] for s in ix.SPLT], [b"train", b"val"])
    same([s["n_parts"] for s in ix.SHRD], [2, 0, 1, 1])
    seen = 0
    for number, part in enumerate(ix.PART):
        path = os.path.join(folder, part["name"].decode())
        raw = open(path, "rb").read()
        same((len(raw), xxh3(raw)), (part["bytes"], part["hash"]), part["name"])
        members = iter(tarfile.open(path, "r:"))
        for i in range(part["first_sample"], part["first_sample"] + part["n_samples"]):
            s = ix.SAMP[i]
            same(s["part"], number)
            for f in ix.FILD[s["first_field"]:s["first_field"] + s["n_fields"]]:
                m = next(members)
                same(m.name.encode(), s["key"] + b"." + f["name"], "member")
                same((m.offset_data, m.size, m.isreg(), m.mtime, m.mode), (f["offset"], f["bytes"], True, 0, 0o644), m.name)
                same(xxh3(raw[f["offset"]:f["offset"] + f["bytes"]]), f["hash"], m.name)
                seen += 1
        same(next(members, None), None, "more members")
    same(seen, len(ix.FILD))


def judge_tree():
    folder = make("tree", 3)
    ix = read_index(folder)
    same(ix.meta["layout"], "tree")
    for part in ix.PART:
        hashes, size = b"", 0
        for s in ix.SAMP[part["first_sample"]:part["first_sample"] + part["n_samples"]]:
            for f in ix.FILD[s["first_field"]:s["first_field"] + s["n_fields"]]:
                raw = open(os.path.join(folder, (s["key"] + b"." + f["name"]).decode()), "rb").read()
                same((len(raw), xxh3(raw)), (f["bytes"], f["hash"]), s["key"])
                hashes += struct.pack("<Q", f["hash"])
                size += len(raw)
        same((part["name"], part["bytes"], part["hash"]), (b"", size, xxh3(hashes)), "part")


def judge_ls():
    """ls in its forms against the reader made from the document."""
    folder = make("shards", 3)
    ix = read_index(folder)
    formats, notes, roles = numbers("Formats"), numbers("Notes"), numbers("Roles")
    status, out, err = slimset("ls", folder, "--json")
    same((status, err), (0, ""))
    lines = [json.loads(l) for l in out.splitlines()]
    same(len(lines), len(ix.SAMP))
    for i, (line, s) in enumerate(zip(lines, ix.SAMP)):
        same((line["number"], os.fsencode(line["key"]), line["split"].encode(), line["class"].encode(), line["class_number"]),
             (i, s["key"], ix.SPLT[s["split"]]["name"], ix.CLAS[s["cls"]]["name"], s["cls"]))
        same(line["part"].encode(), ix.PART[s["part"]]["name"])
        for got, f in zip(line["fields"], ix.FILD[s["first_field"]:]):
            same((got["name"].encode(), os.fsencode(got["path"]), got["role"], got["format"], got["source_format"]),
                 (f["name"], f["path"], roles[f["role"]], formats[f["format"]], formats[f["in_format"]]))
            same((got["offset"], got["bytes"], got["hash"], got["source_bytes"], got["source_hash"]),
                 (f["offset"], f["bytes"], f"{f['hash']:016x}", f["in_bytes"], f"{f['in_hash']:016x}"))
            same([got[k] for k in ("width", "height", "source_width", "source_height", "channels", "bits", "quality",
                                   "orientation", "frames")],
                 [f[k] for k in ("w", "h", "in_w", "in_h", "channels", "bits", "quality", "orientation", "frames")])
            same(got["notes"], [w for b, w in enumerate(notes) if f["notes"] >> b & 1])
    table = list(csv.DictReader(io.StringIO(slimset("ls", folder, "--csv")[1].decode())))
    same([(r["key"], r["field"], int(r["offset"]), r["hash"]) for r in table],
         [(l["key"], f["name"], f["offset"], f["hash"]) for l in lines for f in l["fields"]], "CSV")
    text = slimset("ls", folder)[1].decode().splitlines()
    same(text[0].split(), ["KEY", "FIELDS", "SPLIT", "CLASS", "SIZE", "FROM", "BYTES", "DONE"])
    same([l.split()[0] for l in text[1:]], [l["key"] for l in lines], "table")
    same(text[4].split()[1:], ["jpg,seg.png,cls", "train", "dog", "35x24", "70x48", "724",
                               "reencoded,resized,rotated,copied,generated"], "a row")

    def keys(*args):
        return [json.loads(l)["number"] for l in slimset("ls", folder, "--json", *args)[1].splitlines()]
    same(keys("--split", "val"), [9, 10, 11])
    same(keys("--class", "dog"), [1, 3, 5, 7, 9, 11])
    same(keys("--key", "cat/*4"), [4])
    same(keys("--note", "rotated"), [3])
    same(keys("--class", "cat", "--split", "train", "--limit", "2"), [0, 2])
    for args, code in ((["--split", "test"], 1), (["--class", "bird"], 1), (["--note", "burnt"], 2), (["--meta", "--shards"], 2),
                       (["--rejects", "--split", "val"], 2)):
        status, out, err = slimset("ls", folder, *args)
        same((status, out, err.startswith("slimset ls: ")), (code, b"", True), args)


def judge_other_lists():
    folder = make("shards", 3)
    ix = read_index(folder)
    rejects = [json.loads(l) for l in slimset("ls", folder, "--rejects", "--left-out", "--json")[1].splitlines()]
    same([os.fsencode(r["path"]) for r in rejects], [r["path"] for r in ix.REJS], "paths come back byte for byte")
    same([(r["kind"], r["class"]) for r in rejects],
         [("reject", "truncated"), ("reject", "html"), ("left-out", None), ("junk", None)])
    out = slimset("ls", folder, "--rejects")[1]
    assert b"\x1b" not in out and rb"\x1b[2J" in out, "control characters reach the terminal"
    same(len(out.splitlines()), 3)
    same(len(slimset("ls", folder, "--left-out")[1].splitlines()), 3)
    table = list(csv.reader(io.StringIO(os.fsdecode(slimset("ls", folder, "--rejects", "--csv")[1]))))
    same(table[1], ["reject", "truncated", "cat/broken, or not.jpg", "ends too early"])
    same(os.fsencode(table[2][2]), ix.REJS[1]["path"])
    table = list(csv.reader(io.StringIO(slimset("ls", folder, "--fields", "--csv")[1].decode())))
    same(table[1], ["jpg", "image", "jpeg", "none", "7", "0.1000", 'photos, "8-bit"'])
    shards = [json.loads(l) for l in slimset("ls", folder, "--shards", "--json")[1].splitlines()]
    same([(s["part"].encode(), s["bytes"], s["hash"], s["samples"]) for s in shards],
         [(p["name"], p["bytes"], f"{p['hash']:016x}", p["n_samples"]) for p in ix.PART])
    same(json.loads(slimset("ls", folder, "--meta", "--json")[1]), ix.meta)


def judge_get():
    for kind in ("shards", "tree"):
        folder = make(kind, 3)
        ix = read_index(folder)
        f = ix.FILD[3 * 3:3 * 3 + 3]
        for args, want in ((("dog/000003",), f[0]), (("dog/000003", "seg.png"), f[1]), (("dog/000003.seg.png",), f[1]),
                           (("photos.zip/dog/000003.JPEG",), f[0]), (("photos.zip/dog/000003.seg.png",), f[1]),
                           (("photos.zip/dog/000003.JPEG", "cls"), f[2])):
            status, out, err = slimset("get", folder, *args)
            same((status, err, xxh3(out)), (0, "", want["hash"]), args)
        file = os.path.join(scratch, "out.bin")
        same(slimset("get", folder, "dog/000003", "-o", file)[:2], (0, b""))
        same(xxh3(open(file, "rb").read()), f[0]["hash"])
        os.unlink(file)
        status, out, err = slimset("get", folder, "dog/00003")
        same((status, out), (1, b""))
        assert "dog/000003" in err, err
        status, out, err = slimset("get", folder, "dog/000003", "txt")
        same((status, out), (1, b""))
        assert "jpg, seg.png, cls" in err, err
        same(slimset("get", folder)[0], 2)
    folder = make("shards", 3)
    with open(os.path.join(folder, "train-00000-1.tar"), "r+b") as t:
        t.seek(f[0]["offset"] or 512)
        t.write(b"\xff\xff")
    status, out, err = slimset("get", folder, "dog/000003", "-o", file)
    same((status, out, os.path.exists(file)), (4, b"", False), "damaged")
    same(err, "slimset get: train-00000-1.tar: field jpg of sample dog/000003 does not match its checksum\n")


def judge_verify():
    folder = make("shards", 3)
    status, out, err = slimset("verify", folder)
    same((status, err), (0, ""))
    assert out.startswith(b"checked 4 parts, 12 samples, 36 fields, ") and out.endswith(b": all well\n"), out
    open(os.path.join(folder, "more.txt"), "w").close()
    with open(os.path.join(folder, "val-00000.tar"), "r+b") as t:
        t.seek(512)
        t.write(b"\0\1\2")
    status, out, err = slimset("verify", folder)
    same((status, err), (4, ""))
    same(out.decode().splitlines()[:2], ["damage: val-00000.tar: sample dog/000009 field jpg: its bytes do not match their checksum",
                                         "note: more.txt: not part of the dataset"])
    lines = [json.loads(l) for l in slimset("verify", folder, "--json")[1].splitlines()]
    same(lines[0], {"type": "damage", "part": "val-00000.tar", "key": "dog/000009", "field": "jpg",
                    "text": "its bytes do not match their checksum"})
    same(lines[-1], {"type": "summary", "parts": 4, "samples": 12, "fields": 36, "bytes": lines[-1]["bytes"],
                     "images_decoded": 0, "damaged": 1})
    same(slimset("verify", os.path.join(scratch, "nothing"))[0], 1)
    os.makedirs(os.path.join(scratch, "half/.slimset"))
    open(os.path.join(scratch, "half/.slimset/plan"), "w").close()
    for verb in (["verify"], ["ls"], ["get", "KEY"]):
        status, out, err = slimset(verb[0], os.path.join(scratch, "half"), *verb[1:])
        same((status, out), (1, b""))
        assert "has not finished: run the same pack again" in err, err


try:
    for test in (judge_hash, judge_tables_of_numbers, judge_members, judge_example, judge_shards, judge_tree, judge_ls, judge_other_lists,
                 judge_get, judge_verify):
        judge(test.__name__.replace("judge_", "format_"), test)
finally:
    shutil.rmtree(scratch, ignore_errors=True)
sys.exit(failures != 0)
