#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command-line cases in this folder: NAME.t is a bash script, run with $SLIMSET (the program)
set in an empty folder. NAME.out, NAME.err and NAME.exit say what it must print and return; a missing .out
or .err is not compared, a missing .exit means 0. A case that returns 77 is skipped; its last line says why.
Prints "ok NAME", "FAIL NAME" with a diff, or "skip NAME: reason". Arguments: names of cases, none: all."""
import difflib
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def lines(data):
    return data.decode("utf-8", "backslashreplace").splitlines(keepends=True)


def run_case(name, env):
    cwd = tempfile.mkdtemp(prefix="cli-")
    try:
        done = subprocess.run(["bash", os.path.join(HERE, name + ".t")], cwd=cwd, env=env, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired:
        print("  not finished after 60 s")
        return False
    finally:
        shutil.rmtree(cwd, ignore_errors=True)
    want_exit = int(read(os.path.join(HERE, name + ".exit")) or 0)
    if done.returncode == 77 and want_exit != 77:
        said = done.stdout.decode("utf-8", "backslashreplace").splitlines()
        print(f"skip {name}: {said[-1] if said else 'no reason given'}")
        return None
    good = True
    for kind, got in (("out", done.stdout), ("err", done.stderr)):
        want = read(os.path.join(HERE, f"{name}.{kind}"))
        if want is not None and want != got:
            good = False
            for line in difflib.unified_diff(lines(want), lines(got), f"{name}.{kind}, wanted", "got", n=1):
                print("  " + line.rstrip("\n"))
    if done.returncode != want_exit:
        good = False
        print(f"  exit status {done.returncode}, should be {want_exit}")
    if not good and read(os.path.join(HERE, name + ".err")) is None and done.stderr:
        print("  stderr: " + done.stderr.decode("utf-8", "backslashreplace").rstrip().replace("\n", "\n  "))
    return good


def main():
    program = os.path.abspath(os.environ.get("SLIMSET", os.path.join(ROOT, "build/slimset")))
    if not os.access(program, os.X_OK):
        print(f"FAIL program: {program} is not there")
        return 1
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "BASH_ENV")}
    env.update(SLIMSET=program, LC_ALL="C.UTF-8", NO_COLOR="1", TERM="dumb")
    names = sys.argv[1:] or sorted(os.path.basename(p)[:-2] for p in glob.glob(os.path.join(HERE, "*.t")))
    failed = 0
    for name in names:
        good = run_case(name, env)
        if good is not None:
            print(f"{'ok' if good else 'FAIL'} {name}", flush=True)
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
