#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the archive module by Python's zipfile, tarfile, gzip and lzma and by the zstd program.

archive_judge.py TOOL [DIR]    TOOL is the built test_archive (run with --serve); DIR is for scratch files.
Prints "ok NAME" / "FAIL NAME: ..." lines; exit status 1 when something failed. Seeded: the same archives each time.
"""
import gzip
import io
import lzma
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
import zlib

warnings.simplefilter("ignore")
failures = 0


class Tool:
    def __init__(self, path, folder):
        self.path, self.folder, self.n = path, folder, 0
        self.p = None

    def ask(self, data, fmt, depth=0, max_bytes=1 << 40, command="list"):
        """Members as (name, problem, state, bytes, mtime, crc, in_spool), and the end line as a dict."""
        if self.p is None:
            self.p = subprocess.Popen([self.path, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if isinstance(data, (bytes, bytearray)):
            name = os.path.join(self.folder, "judge.bin")
            with open(name, "wb") as f:
                f.write(data)
        else:
            name = data
        self.p.stdin.write(f"{command} {fmt} {depth} {max_bytes} {name}\n".encode())
        self.p.stdin.flush()
        members = []
        while True:
            line = self.p.stdout.readline()
            if not line:
                self.p.wait()
                code, self.p = self.p.returncode, None
                raise RuntimeError(f"the tool died with {code}")
            if line[:2] == b"M ":
                f = line.decode().split()
                members.append((bytes.fromhex(f[1][:-1]), f[2], f[3], int(f[4]), int(f[5]), int(f[6], 16), f[7] == "1"))
                continue
            head, text = line.decode("latin-1").rstrip("\n").split("|", 1)
            f = head.split()
            return members, {"status": int(f[1]), "reject": f[2], "members": int(f[3]), "no_end": f[4] == "1",
                             "concat": f[5] == "1", "damaged": f[6] == "1", "bytes": int(f[7]), "text": text}


def check(name, cond, detail=""):
    global failures
    if cond:
        print("ok", name)
    else:
        failures += 1
        print(f"FAIL {name}: {detail}")


# ---- random contents and names ----

def contents(r):
    kind = r.randrange(6)
    if kind == 0:
        return b""
    n = r.choice([1, 100, 511, 512, 513, 5000, 70000])
    if kind < 3:
        return r.randbytes(n)
    return (r.randbytes(17) * (n // 17 + 1))[:n]


def names(r, n, limit=400):
    """Distinct clean names as bytes; some odd."""
    got = set()
    while len(got) < n:
        kind = r.randrange(8)
        base = b"%07d" % r.randrange(10 ** 7)
        if kind == 0:
            name = b"a name with  blanks " + base
        elif kind == 1:
            name = b"line\nbreak\ttab " + base
        elif kind == 2:
            name = b"caf\xc3\xa9/\xe2\x82\xac " + base
        elif kind == 3:
            name = b"latin\xe9\xff/" + base
        elif kind == 4:
            name = b"d/" * 10 + b"x" * r.randrange(90, 110) + base
        elif kind == 5:
            name = b"/".join(b"y" * 60 for _ in range(5)) + b"/" + base
        elif kind == 6:
            name = b"back\\slash" + base
        else:
            name = b"train/n01440764/" + base + b".JPEG"
        if len(name) <= limit:
            got.add(name)
    out = sorted(got)
    r.shuffle(out)
    return out


# ---- zip ----

class Unseekable(io.RawIOBase):
    """Makes zipfile write data descriptors."""

    def __init__(self):
        self.parts = []

    def writable(self):
        return True

    def write(self, b):
        self.parts.append(bytes(b))
        return len(b)

    def getvalue(self):
        return b"".join(self.parts)


def make_zip(r, files, descriptors=False, zip64=False, comment=b"", prefix=b""):
    sink = Unseekable() if descriptors else io.BytesIO()
    if prefix:
        sink.write(prefix)
    with zipfile.ZipFile(sink, "w") as z:
        for name, data in files:
            # Python writes cp437 names as they come through this decoding, others with the UTF-8 flag
            try:
                info = zipfile.ZipInfo(name.decode("utf-8"), (2001, 2, 3, 4, 5, 6))
            except UnicodeDecodeError:
                info = zipfile.ZipInfo(name.decode("latin-1"), (2001, 2, 3, 4, 5, 6))
            info.compress_type = r.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            with z.open(info, "w", force_zip64=zip64) as f:
                f.write(data)
        z.comment = comment
    return sink.getvalue()


def zip_name(name):
    try:
        return name.decode("utf-8").encode("utf-8")
    except UnicodeDecodeError:
        return name.decode("latin-1").encode("utf-8")


def zip64_everything(data):
    """Moves all sizes and offsets of a small zip's directory into zip64 fields, with a zip64 end record."""
    eocd = data.rindex(b"PK\5\6")
    count, size, at = struct.unpack("<HII", data[eocd + 10:eocd + 20])
    out, p = bytearray(), at
    while p < at + size:
        h = bytearray(data[p:p + 46])
        packed, full, nlen, xlen, clen = struct.unpack("<IIHHH", h[20:34])
        local, = struct.unpack("<I", h[42:46])
        name, extra = data[p + 46:p + 46 + nlen], data[p + 46 + nlen:p + 46 + nlen + xlen]
        extra = b"\xfe\xca\x02\0hi" + struct.pack("<HHQQQ", 1, 24, full, packed, local) + extra
        struct.pack_into("<II", h, 20, 0xffffffff, 0xffffffff)
        struct.pack_into("<H", h, 30, len(extra))
        struct.pack_into("<I", h, 42, 0xffffffff)
        out += h + name + extra + data[p + 46 + nlen + xlen:p + 46 + nlen + xlen + clen]
        p += 46 + nlen + xlen + clen
    end64 = at + len(out)
    rec = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, count, count, len(out), at)
    loc = struct.pack("<IIQI", 0x07064b50, 0, end64, 1)
    tail = struct.pack("<IHHHHIIH", 0x06054b50, 0xffff, 0xffff, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
    return data[:at] + bytes(out) + rec + loc + tail


# ---- comparing ----

def difference(members, want, mtime=None):
    """want: list of (name, data) in order; None when equal."""
    got = [(m[0], m[1], m[2], m[3], m[5]) for m in members]
    should = [(n, "none", "good", len(d), zlib.crc32(d)) for n, d in want]
    if got != should:
        if len(got) != len(should):
            return f"{len(got)} members, should be {len(should)}"
        for g, s in zip(got, should):
            if g != s:
                return f"{g} should be {s}"
    if mtime is not None and any(m[4] != mtime for m in members):
        return f"times {set(m[4] for m in members)} should be {mtime}"
    return None


def judge_zip(t, r, rounds):
    bad = []
    for i in range(rounds):
        files = [(n, contents(r)) for n in names(r, r.randrange(0, 12), 300)]
        prefix = r.randbytes(r.randrange(1, 3000)) if r.random() < .2 else b""
        data = make_zip(r, files, r.random() < .4, r.random() < .3,
                        r.randbytes(r.randrange(1, 300)) if r.random() < .2 else b"", prefix)
        if prefix and r.random() < .5:
            data = data[:0] + prefix + data  # offsets now wrong by one prefix: a self-extractor
        if r.random() < .2 and not prefix and data.endswith(b"\0\0"):
            data = zip64_everything(data)
            if r.random() < .5:
                data = b"MZ stub" + data
        # zipfile itself must agree on what was meant
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            ref = [(zip_name(n), z.read(i)) for (n, _), i in zip(files, z.infolist())]
        members, end = t.ask(data, "zip")
        d = difference(members, ref, 981173106)
        if d or end["status"] or end["damaged"] or [f[1] for f in files] != [f[1] for f in ref]:
            bad.append(f"round {i}: {d} {end}")
    check(f"zip_random_{rounds}", not bad, bad[:3])


# ---- tar ----

def make_tar(r, files, fmt, mtime=1234567890):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=fmt, encoding="utf-8", errors="surrogateescape") as t:
        for name, data in files:
            info = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
            info.size, info.mtime = len(data), mtime
            t.addfile(info, io.BytesIO(data))
    return b.getvalue()


def fits_ustar(name):
    if len(name) <= 100:
        return True
    return any(c == 47 and 0 < i <= 155 and 0 < len(name) - i - 1 <= 100 for i, c in enumerate(name))


def compress(r, data, how):
    cut = r.randrange(len(data))
    if how == "gz":
        if r.random() < .5:  # two members
            return gzip.compress(data[:cut]) + gzip.compress(data[cut:]) + b"\0" * r.choice([0, 0, 700])
        b = io.BytesIO()
        with gzip.GzipFile("some name", "wb", fileobj=b) as g:
            g.write(data)
        return b.getvalue()
    if how == "xz":
        if r.random() < .5:
            return lzma.compress(data[:cut], preset=1) + lzma.compress(data[cut:], preset=1) + b"\0" * r.choice([0, 4])
        return lzma.compress(data, preset=1)
    z = lambda d, *a: subprocess.run(["zstd", "-1", "-q", "-c", *a], input=d, stdout=subprocess.PIPE, check=True).stdout
    if r.random() < .5:
        return z(data[:cut]) + struct.pack("<II", 0x184D2A53, 9) + b"skip this" + z(data[cut:])
    return z(data, "--long=27")


def judge_tar(t, r, rounds):
    bad = []
    for i in range(rounds):
        fmt = r.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
        ns = [n for n in names(r, r.randrange(1, 14)) if fmt != tarfile.USTAR_FORMAT or fits_ustar(n)]
        files = [(n, contents(r)) for n in ns]
        mtime = r.choice([0, 1234567890, 2 ** 34, -5]) if fmt != tarfile.USTAR_FORMAT else 77
        data = make_tar(r, files, fmt, mtime)
        with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as z:
            ref = [(m.name.encode("utf-8", "surrogateescape"), z.extractfile(m).read()) for m in z]
        how = r.choice(["tar", "tar", "gz", "xz", "zst"])
        members, end = t.ask(data if how == "tar" else compress(r, data, how), how)
        d = difference(members, ref, mtime)
        if d or end["status"] or end["damaged"] or end["no_end"] or end["concat"] or ref != files:
            bad.append(f"round {i} {how}: {d} {end}")
    check(f"tar_random_{rounds}", not bad, bad[:3])


# ---- traps ----

def stored_zip(files, method=zipfile.ZIP_STORED):
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", method) as z:
        for name, data in files:
            z.writestr(name, data)
    return b.getvalue()


def brief(members):
    return [(m[0], m[1]) for m in members]


def trap_zip(t):
    data = stored_zip([("RAWNAME.jpg", b"1"), ("RAWNAM2.jpg", b"2")])
    data = data.replace(b"RAWNAME", b"\x81\x82 \x93\xfa\x7bs").replace(b"RAWNAM2", b"new\nli\xff")
    m, e = t.ask(data, "zip")
    check("zip_raw_names", brief(m) == [(b"\x81\x82 \x93\xfa\x7bs.jpg", "none"), (b"new\nli\xff.jpg", "none")], m)
    m, e = t.ask(stored_zip([("d", b"old"), ("x", b"1"), ("d", b"newer"), ("./d", b"newest")]), "zip")
    check("zip_duplicates", brief(m) == [(b"d", "duplicate"), (b"x", "none"), (b"d", "duplicate"), (b"d", "none")] and
          m[3][5] == zlib.crc32(b"newest"), m)
    m, e = t.ask(stored_zip([("../a", b"1"), ("/b", b"1"), ("c\\d", b"1"), ("C:/e", b"1"), ("f/./g//h", b"1"),
                             ("i/../j", b"1"), ("__MACOSX/._k", b"1"), ("dir/", b"")]), "zip")
    check("zip_traversal", brief(m) == [(b"../a", "name"), (b"b", "none"), (b"c\\d", "none"), (b"C:/e", "name"),
                                        (b"f/g/h", "none"), (b"i/../j", "name"), (b"__MACOSX/._k", "none")], m)
    data = bytearray(stored_zip([("a", b"intact content"), ("b", b"other content")]))
    data[data.index(b"intact")] ^= 1
    m, e = t.ask(data, "zip")
    check("zip_bad_crc", [x[2] for x in m] == ["checksum", "good"], m)
    long = "n" * 4097
    m, e = t.ask(stored_zip([(long, b"1"), (long[1:], b"2")]), "zip")
    check("zip_long_name", [x[1] for x in m] == ["name", "none"] and len(m[0][0]) == 4096, m)
    m, e = t.ask(stored_zip([(f"{i:06}", b"") for i in range(70000)]), "zip", command="count")
    check("zip_70000_members", e["members"] == 70000 and not e["damaged"], e)
    # the announced number wrapped at 65536, as old writers do
    data = stored_zip([(f"{i:06}", b"") for i in range(70000)])
    loc = data.rindex(b"PK\6\6")
    eocd = struct.unpack("<QQ", data[loc + 40:loc + 56])
    data = data[:loc] + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 70000 & 0xffff, 70000 & 0xffff, eocd[0], eocd[1], 0)
    m, e = t.ask(data, "zip", command="count")
    check("zip_count_wrapped", e["members"] == 70000 and not e["damaged"], e)
    data = stored_zip([("zeros", bytes(50 << 20))], zipfile.ZIP_DEFLATED)
    m, e = t.ask(data, "zip")
    check("zip_honest_zeros", [x[1:4] for x in m] == [("none", "good", 50 << 20)], m)
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("bz", b"x" * 99, zipfile.ZIP_BZIP2)
        z.writestr("ok", b"y")
    m, e = t.ask(b.getvalue(), "zip")
    check("zip_method", [x[1] for x in m] == ["unsupported", "none"], m)
    trap_zip_overlap(t)
    m, e = t.ask(b"", "zip")
    check("zip_zero_bytes", e["status"] == 1 and e["reject"] == "empty", e)
    trap_zip_programs(t)


def trap_zip_overlap(t):
    """A kernel of zeros that 50 entries use, as the zip bombs do it: each entry quotes the next header."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    kernel = raw.compress(bytes(4 << 20)) + raw.flush()
    entries, body = [], struct.pack("<IHHHIIIIHH", 0x04034b50, 20, 0, 8, 0, 0, len(kernel), 4 << 20, 2, 0) + b"zz" + kernel
    entries.append(("zz", 0, len(kernel), 4 << 20))
    for i in range(49):
        quoted = struct.pack("<BHH", 0, 30 + 2, 0xffff ^ 32) + body[:32]
        packed = len(quoted) - 32 + len(body)
        size = entries[-1][3] + 32
        head = struct.pack("<IHHHIIIIHH", 0x04034b50, 20, 0, 8, 0, 0, packed, size, 2, 0) + b"%02d" % i
        body = head + quoted[:5] + body
        entries = [(n, at + 37, p, s) for n, at, p, s in entries] + [("%02d" % i, 0, packed, size)]
    cd = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 0, 0, p, s, 2, 0, 0, 0, 0, 0, at) +
                  n.encode() for n, at, p, s in entries)
    data = body + cd + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 50, 50, len(cd), len(body), 0)
    m, e = t.ask(data, "zip")
    check("zip_overlapping_bomb", [x[1] for x in m].count("ratio") == 49 and len(m) == 50, brief(m))


def trap_zip_programs(t):
    folder = os.path.join(t.folder, "z")
    os.mkdir(folder)
    with open(os.path.join(folder, "a.jpg"), "wb") as f:
        f.write(random.Random(1).randbytes(200000))
    os.symlink("/etc/passwd", os.path.join(folder, "link"))
    run = lambda *a: subprocess.run(a, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run("zip", "-q", "-P", "secret", "enc.zip", "a.jpg")
    m, e = t.ask(os.path.join(folder, "enc.zip"), "zip")
    check("zip_encrypted", brief(m) == [(b"a.jpg", "encrypted")], m)
    run("zip", "-q", "-y", "sym.zip", "a.jpg", "link")
    m, e = t.ask(os.path.join(folder, "sym.zip"), "zip")
    check("zip_symlink", brief(m) == [(b"a.jpg", "none"), (b"link", "link")], m)
    run("zip", "-q", "-0", "-s", "64k", "split.zip", "a.jpg")
    m, e = t.ask(os.path.join(folder, "split.zip"), "zip")
    check("zip_split_last", e["status"] == 1 and e["reject"] == "unsupported" and not m, e)
    m, e = t.ask(os.path.join(folder, "split.z01"), "zip")
    check("zip_split_first", e["status"] == 1 and not m, e)


def member(name, **kw):
    info = tarfile.TarInfo(name)
    for k, v in kw.items():
        setattr(info, k, v)
    return info


def trap_tar(t):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=tarfile.GNU_FORMAT) as z:
        z.addfile(member("a", size=3), io.BytesIO(b"abc"))
        z.addfile(member("h", type=tarfile.LNKTYPE, linkname="a"))
        z.addfile(member("h" * 200, type=tarfile.LNKTYPE, linkname="./a"))
        z.addfile(member("s", type=tarfile.SYMTYPE, linkname="/etc/passwd"))
        z.addfile(member("fifo", type=tarfile.FIFOTYPE))
        z.addfile(member("dev", type=tarfile.CHRTYPE))
        z.addfile(member("dir", type=tarfile.DIRTYPE))
        z.addfile(member("./a", size=4), io.BytesIO(b"late"))
    m, e = t.ask(b.getvalue(), "tar")
    check("tar_links", brief(m) == [(b"a", "duplicate"), (b"h", "none"), (b"h" * 200, "none"), (b"s", "link"),
                                    (b"fifo", "not-regular"), (b"dev", "not-regular"), (b"a", "none")] and
          m[1][5] == zlib.crc32(b"abc") and m[6][5] == zlib.crc32(b"late"), m)
    one = make_tar(None, [(b"one", b"1" * 700)], tarfile.USTAR_FORMAT)
    two = make_tar(None, [(b"two", b"2" * 700), (b"three", b"")], tarfile.PAX_FORMAT)
    m, e = t.ask(one + two, "tar")
    check("tar_concatenated", [x[0] for x in m] == [b"one", b"two", b"three"] and e["concat"] and not e["damaged"], e)
    trap_tar_programs(t)


def trap_tar_programs(t):
    folder = os.path.join(t.folder, "t")
    os.mkdir(folder)
    with open(os.path.join(folder, "sparse"), "wb") as f:
        for i in range(40):  # more pieces than the header itself has room for
            f.seek(i * 1000000)
            f.write(b"data")
        f.truncate(50 << 20)
    with open(os.path.join(folder, "plain"), "wb") as f:
        f.write(b"plain")
    os.link(os.path.join(folder, "plain"), os.path.join(folder, "same"))
    run = lambda *a: subprocess.run(a, cwd=folder, check=True)
    for name, args in (("gnu", ["-H", "gnu"]), ("pax00", ["-H", "posix", "--sparse-version=0.0"]),
                       ("pax01", ["-H", "posix", "--sparse-version=0.1"]),
                       ("pax10", ["-H", "posix", "--sparse-version=1.0"])):
        run("tar", "-cSf", "s.tar", *args, "sparse", "plain", "same")
        m, e = t.ask(os.path.join(folder, "s.tar"), "tar")
        check("tar_sparse_" + name, brief(m) == [(b"sparse", "unsupported"), (b"plain", "none"), (b"same", "none")] and
              m[2][5] == zlib.crc32(b"plain") and not e["damaged"], (m, e))
    for fmt in ("v7", "oldgnu", "gnu", "ustar", "posix"):
        run("tar", "-cf", "f.tar", "-H", fmt, "plain", "same")
        m, e = t.ask(os.path.join(folder, "f.tar"), "tar")
        check("tar_format_" + fmt, [x[:4] for x in m] == [(b"plain", "none", "good", 5), (b"same", "none", "good", 5)], m)
    run("tar", "-cf", "v.tar", "-V", "a label", "plain")
    m, e = t.ask(os.path.join(folder, "v.tar"), "tar")
    check("tar_label", brief(m) == [(b"plain", "none")], m)
    run("tar", "-cf", "g.tar", "-H", "posix", "--mtime=@5", "--pax-option=globexthdr.name=g,mtime=-12.5", "plain")
    m, e = t.ask(os.path.join(folder, "g.tar"), "tar")
    check("tar_global_mtime", m[0][4] == -13, m)


def trap_spool(t):
    tar = make_tar(None, [(b"a", os.urandom(3000)), (b"b", b"x" * 3000)], tarfile.USTAR_FORMAT)
    zst = lambda d, *a: subprocess.run(["zstd", "-q", "-c", *a], input=d, stdout=subprocess.PIPE, check=True).stdout
    for how, data in (("gz", gzip.compress(tar)), ("xz", lzma.compress(tar, preset=0)), ("zst", zst(tar, "--check"))):
        whole = t.ask(data, how)[1]
        bad = [n for n in range(1, len(data), 13) if t.ask(data[:n], how)[1]["reject"] not in ("truncated",)]
        check(f"{how}_truncated", whole["status"] == 0 and not bad, bad[:5])
        wrong = 0
        for i in range(0, len(data), 29):
            x = bytearray(data)
            x[i] ^= 0x40
            m, e = t.ask(x, how)
            if e["status"] == 0 and [y[5] for y in m] != [y[5] for y in t.ask(data, how)[0]]:
                wrong += 1
        check(f"{how}_flipped", wrong == 0, wrong)
        check(f"{how}_garbage", t.ask(data + b"garbage behind", how)[1]["reject"] == "corrupt")
        check(f"{how}_limit", t.ask(data, how, 0, len(tar) - 1)[1]["reject"] == "ratio" and
              t.ask(data, how, 0, len(tar))[1]["status"] == 0)
    # a frame that asks for 256 MiB of window: refused before any of it is allocated
    huge = struct.pack("<IBB", 0xFD2FB528, 0, (28 - 10) << 3) + b"\1\0\0"
    check("zst_window", t.ask(huge, "zst")[1]["reject"] == "too-large", t.ask(huge, "zst")[1])
    big = lzma.compress(b"x" * 100, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}])
    check("xz_memory", t.ask(big, "xz")[1]["reject"] == "too-large", t.ask(big, "xz")[1])


def trap_nested(t):
    files = [(b"x.jpg", b"X" * 1000), (b"sub/y.jpg", b"Y" * 70000)]
    tar = make_tar(None, files, tarfile.PAX_FORMAT)
    zipped = stored_zip([(n.decode(), d) for n, d in files], zipfile.ZIP_DEFLATED)
    zst = subprocess.run(["zstd", "-q", "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout
    inner = [("a.tar", tar), ("b.ZIP", zipped), ("c.tgz", gzip.compress(tar)), ("d.tar.gz", gzip.compress(tar)),
             ("e.tar.zst", zst), ("f.tar.xz", lzma.compress(tar))]
    want = [(f"{n.split('.')[0]}/".encode() + k, d) for n, _ in inner for k, d in files] + [(b"n.npz", zipped)]
    inner.append(("n.npz", zipped))
    outer = {
        "tar": make_tar(None, [(n.encode(), d) for n, d in inner], tarfile.GNU_FORMAT),
        "zip": stored_zip(inner), "deflated": stored_zip(inner, zipfile.ZIP_DEFLATED),
    }
    for name, data in outer.items():
        m, e = t.ask(data, "tar" if name == "tar" else "zip", 1)
        spooled = [x[0] for x in m if x[6]]
        at_least = 8 if name != "deflated" else 12
        check("nested_in_" + name, difference(m, want) is None and not e["damaged"] and len(spooled) == at_least,
              (difference(m, want), e, spooled))
        m, e = t.ask(data, "tar" if name == "tar" else "zip", 0)
        check("not_nested_in_" + name, difference(m, [(n.encode(), d) for n, d in inner]) is None, e)
    m, e = t.ask(gzip.compress(outer["tar"]), "gz", 1)
    check("nested_in_spool", difference(m, want) is None, difference(m, want))
    bomb = stored_zip([("big.tar.xz", lzma.compress(tar + bytes(40 << 20)))])
    m, e = t.ask(bomb, "zip", 1)
    check("nested_bomb", brief(m) == [(b"big.tar.xz", "ratio")], m)
    cut = gzip.compress(tar)[:-9]
    m, e = t.ask(stored_zip([("cut.tgz", cut), ("ok", b"1"), ("text.tar.gz", gzip.compress(b"text"))]), "zip", 1)
    check("nested_truncated", brief(m) == [(b"cut.tgz", "truncated"), (b"ok", "none"), (b"text.tar.gz", "none")], m)


# ---- every cut, every flip ----

def sweep(t):
    files = [(b"first", b"1" * 40), (b"second/x", b"22" * 300), (b"third" * 25, b"")]
    data = stored_zip([(n.decode(), d) for n, d in files], zipfile.ZIP_DEFLATED)
    bad = [n for n in range(len(data)) if t.ask(data[:n], "zip")[1]["status"] != 1]
    check(f"zip_every_cut_{len(data)}", not bad, bad[:5])
    good = {n: zlib.crc32(d) for n, d in files}
    tar = make_tar(None, files, tarfile.PAX_FORMAT).rstrip(b"\0")
    tar += b"\0" * (-len(tar) % 512)
    bad = []
    for n in range(len(tar) + 1023):
        m, e = t.ask((tar + b"\0" * 1024)[:n], "tar")
        told = e["status"] == 1 or e["damaged"] or e["no_end"]
        if not told or any(x[1] == "none" and good.get(x[0]) != x[5] for x in m):
            bad.append(n)
    check(f"tar_every_cut_{len(tar)}", not bad, bad[:5])
    rounds = 0
    for name, data, fmt in (("zip", data, "zip"), ("zip64", zip64_everything(data), "zip"),
                            ("tar", tar + b"\0" * 1024, "tar")):
        silent = 0
        for i in range(len(data)):
            for x in (0x01, 0x80, 0xff):
                y = bytearray(data)
                y[i] ^= x
                m, e = t.ask(y, fmt)
                rounds += 1
                if fmt == "tar" and e["status"] == 0 and not e["damaged"] and not e["no_end"] and len(m) != 3:
                    silent += 1
        check(f"{name}_every_flip", silent == 0, silent)
    r = random.Random(5)
    for i in range(1500):  # and many at once
        y = bytearray(r.choice([data, zip64_everything(stored_zip([("a", b"1"), ("b.zip", stored_zip([("c", b"2")]))]))]))
        for _ in range(r.randrange(1, 9)):
            y[r.randrange(len(y))] = r.choice([0, 1, 0x7f, 0x80, 0xff, r.randrange(256)])
        t.ask(y, "tar" if y[:2] != b"PK" else "zip", 1)
    check(f"flips_survived_{rounds}", True)


def speed(t):
    entries = [(f"train/n{i // 1000:08}/n{i // 1000:08}_{i}.JPEG", b"") for i in range(100000)]
    b = io.BytesIO()
    head = bytearray(member("x", size=5).tobuf(tarfile.USTAR_FORMAT))
    for name, _ in entries:
        head[:100] = name.encode().ljust(100, b"\0")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        b.write(head + b"hello" + bytes(507))
    b.write(bytes(1024))
    cd, at = [], 0
    for name, _ in entries:
        n = name.encode()
        cd.append(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 0, 0, 5, 5, len(n), 0, 0, 0, 0, 0, at) + n)
        at += 30 + len(n) + 5
    cd = b"".join(cd)
    z = bytes(at) + cd + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 100000 & 0xffff, 100000 & 0xffff, len(cd), at, 0)
    for fmt, data in (("zip", z), ("tar", b.getvalue())):
        name = os.path.join(t.folder, "speed." + fmt)
        with open(name, "wb") as f:
            f.write(data)
        t.ask(name, fmt, command="count")
        start = time.monotonic()
        _, e = t.ask(name, fmt, 1, command="count")
        took = time.monotonic() - start
        check(f"{fmt}_100000_members_in_{took * 1000:.0f}_ms", e["members"] == 100000 and not e["damaged"] and took < 5, e)


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        t = Tool(sys.argv[1], folder)
        r = random.Random(20)
        judge_zip(t, r, 150)
        judge_tar(t, r, 150)
        for step in (trap_zip, trap_tar, trap_spool, trap_nested, sweep, speed):
            try:
                step(t)
            except RuntimeError as e:
                check(step.__name__, False, e)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
