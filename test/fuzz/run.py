#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one fuzz target: all of its seeds in test/fuzz/corpus, then new inputs from them.

    run.py TARGET                 10 seconds, from a fixed seed; what a test is
    run.py TARGET SECONDS FOLDER  a campaign, which keeps what it finds interesting in FOLDER

What fails is left in $SLIMSET_BUILD/fuzz/found (of ./dev test) or below FOLDER, and shown in hex where it is short."""
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SLIMSET_BUILD", os.path.join(ROOT, "build"))
SHORT_S = 10


def run(target, seconds, folders, found, *options):
    env = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    command = [os.path.join(BUILD, "fuzz", "fuzz_" + target), f"-max_total_time={seconds}", "-timeout=25", "-rss_limit_mb=2048",
               "-artifact_prefix=" + os.path.join(found, target + "-"), *options, *folders]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode("utf-8", "backslashreplace")


def show(text, found, target):
    print("\n".join(text.splitlines()[-60:]))
    for path in sorted(glob.glob(os.path.join(found, target + "-*"))):
        with open(path, "rb") as f:
            data = f.read()
        print(f"input of {len(data)} bytes: {path}" + (f": {data.hex()}" if len(data) <= 400 else ""))


def main():
    target = sys.argv[1]
    corpus = os.path.join(ROOT, "test/fuzz/corpus", target)
    seeds = sorted(glob.glob(os.path.join(corpus, "*")))
    if len(sys.argv) > 2:
        kept = os.path.join(sys.argv[3], target)
        os.makedirs(kept, exist_ok=True)
        code, text = run(target, sys.argv[2], [kept, corpus], sys.argv[3] + "/")
        print("\n".join(text.splitlines()[-4:]) if code == 0 else text)
        return code
    found = os.path.join(BUILD, "fuzz", "found")
    os.makedirs(found, exist_ok=True)
    for old in glob.glob(os.path.join(found, target + "-*")):
        os.unlink(old)
    if not seeds:
        print(f"FAIL {target}: no seeds in test/fuzz/corpus/{target}")
        return 1
    code, text = run(target, 0, seeds, found)  # each once
    if code == 0:
        print(f"ok {target}: {len(seeds)} seeds")
        scratch = os.path.join(os.environ["TMPDIR"], "corpus")
        os.makedirs(scratch)
        code, text = run(target, SHORT_S, [scratch, corpus], found, "-seed=1")
    if code != 0:
        show(text, found, target)
        print(f"FAIL {target}")
        return 1
    print(f"ok {target}: " + next((l for l in text.splitlines() if l.startswith("Done ")), "Done"))
    return 0


sys.exit(main())
