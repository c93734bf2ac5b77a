# SPDX-License-Identifier: Apache-2.0
"""The examples, as a person would run them."""
import os
import re
import subprocess
import sys

from _frame import ls, main, pack

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def example(name, *args):
    pack(f"{ROOT}/data-samples/photos", "-o", "out", "--resize", "128")
    p = subprocess.run([sys.executable, f"{ROOT}/examples/{name}", "out", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=250)
    assert p.returncode == 0, p.stderr[-3000:]
    return p.stdout.splitlines()


def test_train_torch():
    lines = example("train_torch.py", "6")
    seen = [re.fullmatch(r"epoch (\d+): loss ([\d.]+), (\d+) of (\d+) right", line) for line in lines]
    assert len(seen) == 6 and all(seen), lines
    assert {int(m[4]) for m in seen} == {sum(r["split"] == "val" for r in ls("out"))}
    assert float(seen[-1][2]) < float(seen[0][2]), lines


def test_webdataset():
    lines = example("webdataset.py")
    rows = [r for r in ls("out") if r["split"] == "train"]
    want = [(c, sum(r["class_number"] == c for r in rows)) for c in sorted({r["class_number"] for r in rows})]
    assert [tuple(map(int, re.match(r"class (\d+): (\d+) images", line).groups())) for line in lines] == want, lines


def test_preload():
    lines = example("preload.py")
    assert sum(int(re.search(r"decoded (\d+) values", line)[1]) for line in lines) == len(ls("out")) * 64 * 64 * 3, lines
    assert not [n for n in os.listdir("/dev/shm") if n.startswith(f"slimset-{os.getuid()}-")]


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
