# SPDX-License-Identifier: Apache-2.0
# time-limit: 400 s
"""Every call that slimset makes to the system fails once, and from then on always: the Nth call of its class, for
N = 1, 2, 3... until a run ends untouched. After each fault the exit status is as documented, the message says what was
wrong and how to go on, an index never names what is not there, and the same command without the fault is golden.

Under ./dev test every STRIDE-th N of the large classes is taken, with another beginning for each fault; under
./dev torture every one."""
import errno
import os
import shutil

from _crash import (GOES_ON, LONG, Run, build_shim, files, jpeg, lies_in, main, mend, name_of, photos, picture,
                    temporaries, write)

E = errno
counts, wrong = {}, []


class Case:
    """A command, the state of OUT before it, and the datasets that may lie there whole."""

    def __init__(self, name, words, golden, old=None, before=None):
        self.name, self.words, self.golden, self.old, self.before = name, words, golden, old, before

    def reset(self):
        shutil.rmtree("out", ignore_errors=True)
        if self.before:
            shutil.copytree(self.before, "out", copy_function=shutil.copy2)


def fresh_case(*extra, process=("--in-process",), name="fresh"):
    words = ["pack", "src", "-o", "out", "--resize", "24", *process, *extra]
    shutil.rmtree("out", ignore_errors=True)
    r = Run(*words)
    assert r.code == 0, r.err
    return Case(name, words, files("out"))


def update_case(*extra, process=("--in-process",), name="update"):
    case = fresh_case(*extra, process=process, name=name)
    shutil.rmtree("before", ignore_errors=True)
    os.rename("out", "before")
    write("src/cat/0000.jpg", jpeg(picture(48, 36, 77)))
    write("src/dog/new.jpg", jpeg(picture(48, 36, 78)))
    os.remove("src/dog/0001.jpg")
    case.old, case.before = case.golden, "before"
    case.reset()
    r = Run(*case.words)
    assert r.code == 0, r.err
    case.golden = files("out")
    assert case.golden != case.old
    return case


def judge(case, r, fault, what):
    assert r.synced_again == 0, (what, "a failed sync was tried again")
    if fault < 0:
        assert r.code == -9, (what, r.code)
    else:
        # to verify, what cannot be read is damage as any other
        assert r.code in (0, 1) or (case.words[0] == "verify" and r.code == 4), (what, "exit status", r.code, r.err)
    begun = case.words[0] == "pack" or temporaries("out")  # verify looks first
    if r.code == 1 and begun and r.err != "slimset pack: out of memory\n":  # that one: nothing was begun
        assert GOES_ON in r.err, (what, "does not say how to go on", r.err)
        assert os.strerror(fault) in r.err or "memory" in r.err, (what, "does not say what was wrong", r.err)
    if r.code == 0:
        assert files("out") == case.golden, (what, "says all is well", r.err)
    elif os.path.exists("out/slimset.index"):
        assert lies_in(case.golden, "out") or (case.old and lies_in(case.old, "out")), (what, "the index names what is not there", r.err)
    mend(case.words, case.golden, what=what)


def sweep(case, cls, faults, path="", workers=False, stride=1, times=(1, 0)):
    stride = 1 if LONG else stride
    for k, fault in enumerate(faults):
        for t in times:
            if fault in (E.EINTR, 0):
                t = 1 if t == 1 else 7
            at, hits = 1 + (k * 3 + t) % stride, 1
            while hits:
                case.reset()
                what = f"{case.name}: {cls} {name_of(fault)} at {at}, {'always' if t == 0 else f'{t} times'}, path {path!r}"
                r = Run(*case.words, cls=cls, fault=fault, at=at, times=t, path=path, workers=workers)
                hits = r.hits
                counts[cls] = counts.get(cls, 0) + (hits > 0)
                try:
                    if hits:
                        judge(case, r, fault, what)
                    else:
                        assert r.code == 0 and files("out") == case.golden, (what, r.code, r.err)
                except AssertionError as e:  # the others are of interest too
                    wrong.append(e)
                at += stride
                assert len(wrong) < 20, "\n".join(map(str, wrong))


def told():
    found, wrong[:] = wrong[:], []
    assert not found, "\n".join(map(str, found))
    print("injected:", ", ".join(f"{k} {v}" for k, v in sorted(counts.items())), "in all", sum(counts.values()))


def test_output_calls_fresh():
    photos("src", 4, 48, 36)
    case = fresh_case()
    sweep(case, "write", (E.ENOSPC, E.EIO, E.EINTR, 0), stride=9)
    sweep(case, "sync", (E.EIO, E.ENOSPC, E.EINTR, E.ESTALE), stride=2)
    sweep(case, "close", (E.EIO, E.EINTR), path="/out", stride=5)
    sweep(case, "create", (E.ENOSPC, E.EMFILE, E.EINTR, E.EROFS, E.EDQUOT), stride=2)
    sweep(case, "rename", (E.EIO, E.ENOSPC, E.ESTALE), stride=2)
    sweep(case, "unlink", (E.EIO, E.EROFS), stride=3)
    sweep(case, "mkdir", (E.ENOSPC, E.EIO))
    told()


def test_file_system_without_sync():
    """Some network and FUSE file systems know no fsync: there is nothing better to be had, and the run ends well."""
    photos("src", 3, 48, 36)
    for case in (fresh_case(), fresh_case("--to", "tree")):
        for fault in (E.EINVAL, E.ENOTSUP, E.ENOSYS):
            case.reset()
            r = Run(*case.words, cls="sync", fault=fault, at=1, times=0)
            assert r.code == 0 and r.hits > 2 and files("out") == case.golden, (case.name, fault, r.err)


def test_output_calls_update():
    photos("src", 6, 48, 36)
    case = update_case()
    sweep(case, "write", (E.ENOSPC, E.EIO), stride=13)
    sweep(case, "sync", (E.EIO,))
    sweep(case, "close", (E.EIO,), path="/out", stride=9)
    sweep(case, "create", (E.ENOSPC,))
    sweep(case, "rename", (E.EIO,))
    sweep(case, "unlink", (E.EIO,), stride=2)
    told()


def test_output_calls_tree():
    photos("src", 4, 48, 36)
    case = update_case("--to", "tree", name="tree")
    sweep(case, "write", (E.ENOSPC,), stride=9)
    sweep(case, "sync", (E.EIO,))
    sweep(case, "rename", (E.EIO,))
    sweep(case, "unlink", (E.EIO,))
    sweep(case, "mkdir", (E.ENOSPC,))
    told()


def test_looking_and_reading():
    """What is looked at in OUT and in the source: an error is no answer."""
    photos("src", 4, 48, 36)
    case = fresh_case()
    sweep(case, "read", (E.EIO, E.EINTR, 0), stride=3)
    sweep(case, "open", (E.EMFILE, E.EIO, E.EINTR), stride=4)
    sweep(case, "stat", (E.EIO,), stride=4)
    sweep(case, "list", (E.EIO,), stride=2)
    case = update_case()
    sweep(case, "read", (E.EIO,), stride=3)
    sweep(case, "open", (E.EMFILE, E.EIO), stride=5)
    sweep(case, "stat", (E.EIO,), stride=5)
    sweep(case, "list", (E.EIO,), stride=2)
    told()


def test_memory_of_the_coordinator():
    photos("src", 3, 48, 36)
    case = fresh_case(process=("-j", "1"))
    sweep(case, "alloc", (E.ENOMEM,), stride=25)
    sweep(case, "mmap", (E.ENOMEM,))
    case = update_case(process=("-j", "1"))
    sweep(case, "alloc", (E.ENOMEM,), stride=31)
    told()


def test_processes_cannot_be_started():
    photos("src", 3, 48, 36)
    sweep(fresh_case(process=("-j", "2")), "process", (E.EMFILE, E.ENOMEM, E.EAGAIN), stride=2)
    told()


def test_workers():
    """Faults inside the sandboxed workers: no input is blamed for them."""
    photos("src", 3, 48, 36)
    case = fresh_case(process=("-j", "1"))
    sweep(case, "read", (E.EIO, E.EINTR, 0), workers=True)
    sweep(case, "alloc", (E.ENOMEM,), workers=True, stride=5)
    told()


def test_fix():
    """The same for `verify --fix`, which builds damaged shards again."""
    photos("src", 6, 48, 36)
    case = fresh_case("--shards", "3")
    shutil.rmtree("before", ignore_errors=True)
    os.rename("out", "before")
    name = sorted(n for n in case.golden if n.endswith(".tar"))[1]
    with open(f"before/{name}", "r+b") as f:
        f.seek(700)
        f.write(b"damage")
    case.name, case.before, case.old, case.words = "fix", "before", files("before"), ["verify", "--fix", "out", "src", "-j", "1"]
    sweep(case, "write", (E.ENOSPC,), path="/out", stride=5)
    sweep(case, "sync", (E.EIO,))
    sweep(case, "create", (E.ENOSPC,))
    sweep(case, "rename", (E.EIO,))
    sweep(case, "read", (E.EIO,), path="/out")
    sweep(case, "stat", (E.EIO,), stride=3)
    sweep(case, "open", (E.EMFILE,), stride=3)
    told()


def test_killed_at_each_call():
    """kill -9 instead of the Nth call, and right after it."""
    photos("src", 4, 48, 36)
    for make in (fresh_case, update_case):
        case = make()
        for cls in ("create", "write", "sync", "rename", "unlink", "mkdir"):
            sweep(case, cls, (-1, -2), stride=11 if cls == "write" else 2, times=(1,))
    told()


build_shim()
main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
