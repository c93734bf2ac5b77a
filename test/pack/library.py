#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libslimset as others use it: built without what only packing needs, installed below a prefix, found with
pkg-config alone, from C and from C++; what it shows and what it needs."""
import io
import os
import shutil
import subprocess

import numpy as np
from PIL import Image

import _frame
from _frame import pack

ROOT = os.path.abspath(os.environ.get("SLIMSET_ROOT") or os.path.join(os.path.dirname(__file__), "../.."))
CC = os.environ.get("CC", "cc").split()

PROGRAM = r"""
#include <slimset/reader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct slimset_reader *r;
    struct slimset_error err;
    struct slimset_pixels px;
    struct slimset_info info;
    size_t n, cap = 1 << 20;
    unsigned char *buf = (unsigned char *)malloc(cap);
    uint64_t i;
    uint32_t k;
    if (argc != 4 || slimset_reader_open(argv[1], &r, &err) != SLIMSET_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    slimset_reader_info(r, &info);
    if (slimset_reader_find(r, argv[2], strlen(argv[2]), &i, &err) != SLIMSET_OK ||
        slimset_reader_field_named(r, i, argv[3], strlen(argv[3]), &k, &err) != SLIMSET_OK ||
        slimset_reader_read(r, i, k, buf, cap, &n, &err) != SLIMSET_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    fprintf(stderr, "%u samples, %s, %u bytes\n", (unsigned)info.samples, slimset_version(), (unsigned)n);
    if (slimset_reader_decode(r, i, k, NULL, buf, cap, &px, &err) != SLIMSET_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    fprintf(stderr, "%ux%ux%u\n", px.w, px.h, px.channels);
    fwrite(buf, 1, px.bytes, stdout);
    slimset_reader_close(r);
    free(buf);
    return 0;
}
"""


def sh(*command, **kw):
    p = subprocess.run(command, capture_output=True, **kw)
    if p.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {p.returncode}\n{p.stdout.decode()[-1500:]}\n{p.stderr.decode()[-1500:]}")
    return p


def installed(t):
    """The prefix, made once."""
    prefix, build = os.path.join(t, "prefix"), os.path.join(t, "build")
    if not os.path.exists(prefix):
        sh("meson", "setup", build, ROOT, "-Dtool=false", f"--prefix={prefix}", "--libdir=lib", "--buildtype=release")
        sh("ninja", "-C", build, "install")
    return prefix


def test_library():
    t = os.getcwd()
    prefix = installed(t)
    have = {os.path.relpath(os.path.join(d, n), prefix) for d, _, names in os.walk(prefix) for n in names}
    want = {"include/slimset/reader.h", "include/slimset/status.h", "lib/libslimset.so", "lib/libslimset.so.0",
            "lib/pkgconfig/slimset.pc"}
    assert want < have and len(have) == 6, have
    library = os.path.join(prefix, "lib/libslimset.so")
    dynamic = sh("readelf", "-d", library).stdout.decode()
    needed = {line.split("[")[1].split("]")[0].split(".so")[0] for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc", "libm", "libpthread", "librt", "libjpeg", "libzstd", "libblosc", "ld-linux-x86-64",
                      "ld-linux-aarch64", "libdl", "libgcc_s"}, needed
    assert "soname: [libslimset.so.0]" in dynamic, dynamic
    shown = [line.split()[-1] for line in sh("nm", "-D", "--defined-only", library).stdout.decode().splitlines()]
    assert len(shown) > 25 and all(s.startswith("slimset_") for s in shown), shown

    source = os.path.join(t, "source")
    os.makedirs(source)
    picture = np.random.default_rng(1).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(picture).save(os.path.join(source, "a.png"))
    Image.fromarray(picture).resize((90, 70)).save(os.path.join(source, "b.jpg"), quality=92)
    out = os.path.join(t, "out")
    pack(source, "-o", out)

    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"), LD_LIBRARY_PATH=os.path.join(prefix, "lib"))
    flags = sh("pkg-config", "--cflags", "--libs", "slimset", env=env).stdout.decode().split()
    compilers = [("c", [*CC, "-std=c99"])] + ([("cc", ["c++", "-std=c++11"])] if shutil.which("c++") else [])
    for ending, compiler in compilers:
        code, program = os.path.join(t, "use." + ending), os.path.join(t, "use_" + ending)
        with open(code, "w") as f:
            f.write(PROGRAM)
        sh(*compiler, "-Wall", "-Wextra", "-Werror", "-pedantic", code, "-o", program, *flags)
        for key, field, size in (("a", "png", "30x40x3"), ("b", "jpg", "90x70x3")):
            p = sh(program, out, key, field, env=env)
            data = _frame.members(out)[f"{key}.{field}"]
            assert f"2 samples, 0.1.0, {len(data)} bytes\n{size}\n" == p.stderr.decode(), p.stderr
            assert p.stdout == np.array(Image.open(io.BytesIO(data)).convert("RGB")).tobytes(), (ending, key)
        bad = subprocess.run([program, source, "a", "png"], capture_output=True, env=env)
        assert bad.returncode == 1 and b"is no packed dataset" in bad.stderr, bad.stderr


_frame.main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
