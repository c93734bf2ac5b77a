#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test program and says what failed. doc/testing.md describes the conventions.

A program prints "ok NAME", "FAIL NAME" or "skip NAME: reason", one line a test; everything else it
prints belongs to the next such line (or to the FAIL line before it) and is shown only for failures.
One more failure is counted for a program that ends badly without having named a failure, that dies
of a signal, runs out of time or says nothing at all.
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = re.compile(r"^(ok|FAIL|skip) (.+)$")
TIME_LIMIT = re.compile(r"^(?:#|//|/\*| \*)\s*time-limit: (\d+) s", re.M)
DEFAULT_LIMIT_S = 300
SHOWN_LINES = 100         # of one program, so that a torrent does not hide the others
SHOWN_BYTES = 8 << 20     # of one program's output that are looked at


class Program:
    """One test program: how to start it, and what came of it."""

    def __init__(self, suite, source, command):
        self.suite = suite
        self.name = os.path.relpath(source, ROOT)
        self.command = command
        with open(source, errors="replace") as f:
            limit = TIME_LIMIT.search(f.read(4000))
        self.limit_s = int(limit.group(1)) if limit else DEFAULT_LIMIT_S
        self.seconds = 0.0
        self.passed = 0
        self.failures = []  # names
        self.skipped = []   # "NAME: reason"
        self.shown = []     # what a person needs to see of the output

    def read(self, text, ending):
        """Counts the result lines; `ending` is None for exit status 0, else words for the person."""
        lines = text.splitlines()
        block, block_wanted = [], False  # lines since the last result line; whether that was a FAIL
        for line in lines + [None]:
            m = RESULT.match(line) if line is not None else None
            if not m and line is not None:
                block.append(line)
                continue
            kind, name = m.groups() if m else (None, None)
            # What explains a failure stands before its line or after it.
            if block_wanted or kind == "FAIL":
                self.shown += block
            block, block_wanted = [], kind == "FAIL"
            if kind == "ok":
                self.passed += 1
            elif kind == "skip":
                self.skipped.append(name)
            elif kind == "FAIL":
                self.failures.append(name)
                self.shown.append(line)
        found = self.passed + len(self.failures) + len(self.skipped)
        died = ending is not None and not ending.startswith("exit status")
        if died or (ending is not None and not self.failures):
            self.fail(ending, lines)
        elif ending is None and found == 0:
            self.fail("printed no result line", lines)

    def fail(self, why, lines=()):
        """A failure of the program as a whole."""
        self.failures.append(why)
        self.shown += [*lines[-SHOWN_LINES:], f"FAIL {why}"]


def ending_of(returncode, timed_out, limit_s):
    if timed_out:
        return f"stopped after its time limit of {limit_s} s"
    if returncode < 0:
        try:
            return f"died of {signal.Signals(-returncode).name}"
        except ValueError:
            return f"died of signal {-returncode}"
    return f"exit status {returncode}" if returncode else None


def run_program(program, build, env, say):
    scratch = os.path.join(build, "tmp", re.sub(r"\W+", "_", program.name))
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    output = os.path.join(scratch + ".out")
    start = time.monotonic()
    timed_out = False
    with open(output, "wb") as out:
        try:
            child = subprocess.Popen(program.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True,
                                     env={**env, "TMPDIR": scratch})
        except OSError as e:
            program.fail(f"cannot be started: {e}")
            say(program)
            return
        try:
            child.wait(program.limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            # What it left running goes with it: the whole session is ours.
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
    program.seconds = time.monotonic() - start
    with open(output, "rb") as f:
        text = f.read(SHOWN_BYTES).decode("utf-8", "backslashreplace")
    program.read(text, ending_of(child.returncode, timed_out, program.limit_s))
    if not program.failures:
        shutil.rmtree(scratch, ignore_errors=True)
        os.unlink(output)
    say(program)


def text_of(source):
    with open(source, errors="replace") as f:
        return f.read()


def driven_program(source):
    """The C program that foo_judge.py drives: foo_tool or test_foo, whichever its text names."""
    module = os.path.basename(source)[:-len("_judge.py")]
    for name in (module + "_tool", "test_" + module):
        if name in text_of(source) and os.path.exists(os.path.join(ROOT, "test/unit", name + ".c")):
            return name
    return None


def find_programs(build, python, in_process):
    found = []
    for source in sorted(glob.glob(os.path.join(ROOT, "test/unit/test_*.c"))):
        found.append(Program("unit", source, [os.path.join(build, os.path.basename(source)[:-2])]))
    for source in sorted(glob.glob(os.path.join(ROOT, "test/unit/*_judge.py"))):
        name = driven_program(source)
        # Under sanitizers a judge is worth its time only where it uses what was built with them.
        if name or not in_process or "SLIMSET_BUILD" in text_of(source):
            found.append(Program("unit", source, [python, source] + ([os.path.join(build, name)] if name else [])))
    for suite, pattern in (("cli", "test/cli/run.py"), ("pack", "test/pack/*.py"), ("traps", "test/traps/*.py"),
                           ("crash", "test/crash/*.py"),
                           ("stock", "test/stock/*.py"), ("python", "test/python/*.py")):
        for source in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.basename(source).startswith("_"):
                continue  # a module for the others
            # The sandbox and sanitizers do not go together: only scripts that can ask for --in-process.
            if in_process and suite in ("pack", "traps", "crash", "stock", "python") and "SLIMSET_IN_PROCESS" not in text_of(source):
                continue
            found.append(Program(suite, source, [python, source]))
    # Fuzz targets carry their own sanitizers: once is enough.
    for source in sorted(glob.glob(os.path.join(ROOT, "test/fuzz/fuzz_*.c"))):
        if not in_process:
            target = os.path.basename(source)[len("fuzz_"):-2]
            found.append(Program("fuzz", source, [python, os.path.join(ROOT, "test/fuzz/run.py"), target]))
    return found


def main():
    parser = argparse.ArgumentParser(description="Runs the tests.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where the programs are")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--in-process", action="store_true", help="for sanitizer builds")
    parser.add_argument("--torture", action="store_true", help="the long form of the crash tests, and only these")
    parser.add_argument("names", nargs="*", help="only programs whose path contains one of these")
    args = parser.parse_args()
    build = os.path.abspath(args.build)

    venv = os.path.join(ROOT, "build/venv/bin/python")
    python = venv if os.access(venv, os.X_OK) else "/usr/bin/python3"
    env = dict(os.environ)
    env.update(SLIMSET=os.path.join(build, "slimset"), SLIMSET_BUILD=build, SLIMSET_ROOT=ROOT,
               SLIMSET_PYTHON=python, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8", NO_COLOR="1")
    env["PYTHONPATH"] = os.path.join(ROOT, "build/python")  # our own package, as pip built it
    if args.in_process:
        env["SLIMSET_IN_PROCESS"] = "1"
    if args.torture:
        env["SLIMSET_TORTURE"] = "1"

    programs = find_programs(build, python, args.in_process)
    if args.names:
        # "png" means the tests of PNG; its fuzz target is meant by "fuzz" or "fuzz_png"
        programs = [p for p in programs if any(n in p.name and (p.suite != "fuzz" or "fuzz" in n) for n in args.names)]
    if args.torture:
        programs = [p for p in programs if p.suite == "crash"]
        for p in programs:
            p.limit_s *= 30
    lock = threading.Lock()

    def say(program):
        with lock:
            words = f"{program.passed} ok"
            if program.failures:
                words += f", {len(program.failures)} FAILED"
            if program.skipped:
                words += f", {len(program.skipped)} skipped"
            print(f"{program.name}: {words} ({program.seconds:.1f} s)")
            hidden = max(0, len(program.shown) - SHOWN_LINES)
            if hidden:
                print(f"    ({hidden} lines before these)")
            for line in program.shown[hidden:]:
                print("    " + line.rstrip())
            sys.stdout.flush()

    # The long ones first, so that the last one does not run alone.
    programs.sort(key=lambda p: (p.suite not in ("pack", "traps", "crash"), -p.limit_s, p.name))
    with ThreadPoolExecutor(max_workers=max(1, args.jobs)) as pool:
        for done in [pool.submit(run_program, p, build, env, say) for p in programs]:
            done.result()

    programs.sort(key=lambda p: p.name)
    passed = sum(p.passed for p in programs)
    failed = sum(len(p.failures) for p in programs)
    skipped = [(p.name, s) for p in programs for s in p.skipped]
    if not programs:
        print("no test program found")
        failed = 1
    slowest = sorted(programs, key=lambda p: -p.seconds)[:5]
    print("slowest: " + ", ".join(f"{os.path.basename(p.name)} {p.seconds:.1f} s" for p in slowest))
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    if failed:
        print("failed:")
        for p in programs:
            for name in p.failures:
                print(f"    {p.name}: {name}")
    traps = [p for p in programs if p.suite == "traps"]
    if traps:
        print(f"traps: {sum(p.passed for p in traps)} passed, {sum(len(p.failures) for p in traps)} failed")
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
