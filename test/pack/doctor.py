#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slimset doctor against what the kernel and the libraries say when others ask them."""
import ctypes
import json
import os
import platform
import resource
import subprocess
import zlib

from _frame import main, run


def facts():
    p = run("doctor", "--json", code=0)
    found = {}
    for line in p.out.splitlines():
        x = json.loads(line)
        assert sorted(x) == ["group", "name", "state", "text"] and x["state"] in ("fact", "good", "lacking", "bad"), x
        found[x["group"], x["name"]] = x
    return found


def test_versions():
    f = facts()
    assert f["build", "slimset"]["text"] == run("version", code=0).out.split()[1]
    assert f["build", "zlib"]["text"] == zlib.ZLIB_RUNTIME_VERSION
    zstd = subprocess.run(["zstd", "--version"], capture_output=True, text=True, check=True).stdout
    assert "v" + f["build", "zstd"]["text"] in zstd, zstd
    xz = subprocess.run(["xz", "--version"], capture_output=True, text=True, check=True).stdout
    assert f["build", "liblzma"]["text"] in xz, xz
    vips = subprocess.run(["vips", "--version"], capture_output=True, text=True, check=True).stdout
    if f["build", "libvips"]["state"] == "fact":
        assert "vips-" + f["build", "libvips"]["text"] in vips, vips


def test_kernel():
    f = facts()
    abi = ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)  # landlock_create_ruleset
    if abi > 0:
        assert f["sandbox", "landlock"]["text"].startswith(f"ABI {abi}:"), f["sandbox", "landlock"]
    else:
        assert f["sandbox", "landlock"]["state"] == "lacking"
    assert f["sandbox", "seccomp"]["state"] == "good" and f["sandbox", "no_new_privs"]["state"] == "good"
    assert f["machine", "kernel"]["text"].split()[1] == platform.release()


def test_machine():
    f = facts()
    assert f["machine", "processors"]["text"] == str(os.cpu_count())
    assert f["machine", "open files"]["text"].split(":")[0] == str(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    if platform.machine() == "x86_64":
        with open("/proc/cpuinfo") as c:
            assert (f["machine", "simd"]["state"] == "good") == (" avx2" in c.read())


def test_every_format_is_tried():
    f = facts()
    for name in ("jpeg", "png", "bmp", "pnm"):
        assert f["decode", name]["state"] == "good", f["decode", name]
    for name in ("jpeg", "png", "npy"):
        assert f["encode", name]["state"] == "good", f["encode", name]
    loaders = subprocess.run(["vips", "-l", "foreign"], capture_output=True, text=True, check=True).stdout
    for name, loader in (("tiff", "tiffload_buffer"), ("webp", "webpload_buffer"), ("jxl", "jxlload_buffer"), ("jp2", "jp2kload_buffer")):
        if ("decode", name) in f:
            assert (f["decode", name]["state"] == "good") <= (loader in loaders), (name, f["decode", name])


def test_few_descriptors_are_said():
    p = subprocess.run(["bash", "-c", f"ulimit -n 100; exec '{os.environ.get('SLIMSET', 'slimset')}' doctor"], capture_output=True, text=True)
    assert p.returncode == 0 and "few inputs" in p.stdout, (p.returncode, p.stdout, p.stderr)


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
