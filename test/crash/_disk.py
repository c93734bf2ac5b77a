# SPDX-License-Identifier: Apache-2.0
"""A disk that forgets: from the record of a run (shim.c) the states in which a power cut may leave the disk.

What is certain after a cut: data of a file up to its last sync; names up to the last sync of one of the folders they
stand in (a rename changes two folders at once); everything up to a syncfs. Of the rest anything may be there or not:
names new or old, data lost, partly there, torn in the last write, or of the right length and zero.
"""
import os
import random
import struct

CREATE, WRITE, FSYNC, SYNCFS, RENAME, UNLINK, MKDIR, TRUNC = range(1, 9)
SECTORS = (512, 4096)


class Node:
    """A file or a folder, whatever its names. `first`: bytes, or {name: Node}, when the record begins (durable)."""

    def __init__(self, ino, first):
        self.ino, self.first, self.folder = ino, first, isinstance(first, dict)
        self.now = dict(first) if self.folder else None  # names while the record is read


def load(path, inos):
    """What lies on the real disk, as nodes."""
    st = os.lstat(path)
    if os.path.isdir(path):
        node = Node(st.st_ino, {name: load(os.path.join(path, name), inos) for name in os.listdir(path)})
    else:
        with open(path, "rb") as f:
            node = Node(st.st_ino, f.read())
    inos[st.st_ino] = node
    return node


def raw_records(path):
    with open(path, "rb") as f:
        text = f.read()
    at = 0
    while at < len(text):
        op, n1, n2, n, a, b, c = struct.unpack_from("<IIIIQQQ", text, at)
        at += 40
        name1, name2, data = text[at:at + n1], text[at + n1:at + n1 + n2], text[at + n1 + n2:at + n1 + n2 + n]
        at += n1 + n2 + n
        yield op, a, b, c, os.fsdecode(name1), os.fsdecode(name2), data


class Record:
    """The calls of one run as ("link", dir, name, node), ("rename", dir, name, dir, name, node), ("unlink", dir, name,
    node), ("write", node, offset, data), ("trunc", node, length), ("sync", node), ("syncfs",)."""

    def __init__(self, root, inos, path):
        self.root, self.ops, self.inos = root, [], inos
        for r in raw_records(path):
            self.take(*r)

    def walk(self, ino, path):
        folder = self.inos[ino] if ino else self.root
        *above, name = [p for p in path.split("/") if p not in ("", ".")]
        for p in above:
            folder = folder.now[p]
        return folder, name

    def take(self, op, a, b, c, name1, name2, data):
        if op in (WRITE, FSYNC, TRUNC):
            if a not in self.inos:  # a file without a name, as the spool
                return
            node = self.inos[a]
            self.ops.append(("write", node, b, data) if op == WRITE else ("sync", node) if op == FSYNC else ("trunc", node, b))
        elif op == SYNCFS:
            self.ops.append(("syncfs",))
        elif op in (CREATE, MKDIR):
            folder, name = self.walk(a, name1)
            there = folder.now.get(name)
            if there is None or there.ino != b:
                node = Node(b, {} if op == MKDIR else b"")
                self.inos[b] = folder.now[name] = node
                self.ops.append(("link", folder, name, node))
            elif c:
                self.ops.append(("trunc", there, 0))
        elif op == RENAME:
            d1, n1 = self.walk(a, name1)
            d2, n2 = self.walk(b, name2)
            node = d1.now.pop(n1)
            d2.now[n2] = node
            self.ops.append(("rename", d1, n1, d2, n2, node))
        elif op == UNLINK:
            folder, name = self.walk(a, name1)
            self.ops.append(("unlink", folder, name, folder.now.pop(name)))

    def certain(self, n):
        """For the first n calls: which of them nothing can undo."""
        sure = [False] * n
        synced, all_synced = set(), False  # by what follows
        for i in range(n - 1, -1, -1):
            op = self.ops[i]
            if op[0] == "syncfs":
                all_synced = True
            elif op[0] == "sync":
                synced.add(op[1])
            else:
                touched = (op[1], op[3]) if op[0] == "rename" else (op[1],)
                sure[i] = all_synced or any(t in synced for t in touched)
        return sure

    def state(self, n, names, data, rng):
        """{path: bytes, or None for a folder} after a cut behind n calls.

        names: which names that are not certain are there: "none", "all", "some", "until" or "since" some moment, or
        only the "last".
        data: what of a file's data that are not certain: "none", "all", "zero", "torn", "some", or "any" of these."""
        sure = self.certain(n)
        moment = rng.randrange(n + 1) if names in ("until", "since") else n - 1
        folders, writes = {}, {}

        def entries(d):
            return folders.setdefault(d, dict(d.first))

        for i in range(n):
            op = self.ops[i]
            if op[0] in ("write", "trunc"):
                writes.setdefault(op[1], []).append((sure[i], op))
            elif op[0] in ("link", "rename", "unlink"):
                if not (sure[i] or names == "all" or (names == "some" and rng.random() < 0.5) or
                        (names == "until" and i < moment) or (names in ("since", "last") and i >= moment)):
                    continue
                if op[0] == "link":
                    entries(op[1])[op[2]] = op[3]
                elif op[0] == "unlink" and entries(op[1]).get(op[2]) is op[3]:
                    del entries(op[1])[op[2]]
                elif op[0] == "rename":
                    if entries(op[1]).get(op[2]) is op[5]:
                        del entries(op[1])[op[2]]
                    entries(op[3])[op[4]] = op[5]
        found = {}

        def lay(folder, path):
            for name, node in sorted(entries(folder).items()):
                here = f"{path}/{name}" if path else name
                if node.folder:
                    found[here] = None
                    lay(node, here)
                else:
                    found[here] = content(node.first, writes.get(node, []), data, rng)

        lay(self.root, "")
        return found


def put(text, op):
    if op[0] == "trunc":
        return text[:op[2]] + bytes(max(0, op[2] - len(text)))
    return text[:op[2]].ljust(op[2], b"\0") + op[3] + text[op[2] + len(op[3]):]


def content(first, writes, how, rng):
    if how == "any":
        how = rng.choice(("none", "all", "zero", "torn", "some"))
    text = first
    pending = []
    for sure, op in writes:
        if sure:
            text = put(text, op)
        else:
            pending.append(op)
    for i, op in enumerate(pending):
        if how == "none" or (how == "some" and rng.random() < 0.5):
            continue
        if how == "zero" and op[0] == "write":
            op = ("write", op[1], op[2], bytes(len(op[3])))
        elif how == "torn" and i == len(pending) - 1 and op[0] == "write":
            sector = rng.choice(SECTORS)
            sectors = (len(op[3]) - 1) // sector
            op = ("write", op[1], op[2], op[3][:rng.randint(0, sectors) * sector])
        text = put(text, op)
    return text


POLICIES = [("none", "none"), ("all", "none"), ("all", "zero"), ("all", "torn"), ("none", "all"), ("all", "all"),
            ("until", "none"), ("until", "zero"), ("some", "any"), ("some", "any"), ("until", "any"),
            ("since", "any"), ("last", "all")]


def states(record, seed, rounds=1):
    """All distinct states of a record, each with the words to make it again."""
    seen = set()
    for n in range(len(record.ops) + 1):
        for k, (names, data) in enumerate(POLICIES * rounds):
            s = f"{seed}/{n}/{k}"
            found = record.state(n, names, data, random.Random(s))
            digest = hash(tuple(sorted((p, t) for p, t in found.items() if t is not None)))
            if digest not in seen:
                seen.add(digest)
                yield f"after call {n} of {len(record.ops)}, names {names}, data {data}, seed {s}", found


def lay_out(found, top):
    """Writes a state to the real disk below `top`."""
    for path, text in found.items():
        to = os.path.join(top, path)
        if text is None:
            os.makedirs(to, exist_ok=True)
        else:
            with open(to, "wb") as f:
                f.write(text)
