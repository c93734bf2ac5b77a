# SPDX-License-Identifier: Apache-2.0
"""An open dataset as a sequence of samples."""
import ast
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, List, NamedTuple, Optional, SupportsIndex, Tuple, Union, overload

import numpy as np

from . import _checks, _core
from .errors import ChangedError, NotFoundError

PathLike = Union[str, "os.PathLike[str]"]
Indices = Union[Sequence, np.ndarray]
Which = Union[SupportsIndex, str]

_PRELOAD: dict = {None: 0, "page-cache": 1, "ram": 2}
_FIT: dict = {"exact": 0, "crop": 1, "centre": 2, "center": 2}
_LAYOUT: dict = {"hwc": False, "chw": True}
_CHANNELS: dict = {1: 1, 3: 3, 4: 4}
_AS_STORED: dict = {**_CHANNELS, None: 0}
_SCALE: dict = {1: 1, 2: 2, 4: 4, 8: 8}
_ROW = np.dtype([("bytes", "<u8"), ("key_at", "<u8"), ("label", "<i4"), ("key_n", "<u4"), ("w", "<u4"), ("h", "<u4")])


class Split(NamedTuple):
    """A split: its samples are numbered first .. first + samples - 1."""
    name: str
    first: int
    samples: int

    @property
    def range(self) -> range:
        """The numbers of its samples."""
        return range(self.first, self.first + self.samples)


class Shard(NamedTuple):
    """A file of the dataset; name is "" in a tree."""
    name: str
    split: str
    first: int
    samples: int
    bytes: int


class Field(NamedTuple):
    """What the index says of a field: role is "image", "mask", "depth", "array", "copy" or "label"; width, height (pixels,
    of the upright picture), channels and bits are 0 where it is no image. orientation: what EXIF says that a viewer has to do
    with the stored pixels, 1 nothing, 2 to 8 turn or mirror (0 no image); decode does not do it. format: what the stored bytes are, "jpeg", "npy-zst", ..."""
    name: str
    role: str
    width: int
    height: int
    channels: int
    bits: int
    orientation: int
    format: str


class Sample(Mapping):
    """A sample: a mapping of the names of its fields to their bytes. Nothing is read before it is asked for."""

    __slots__ = ("_data", "number", "_facts")

    def __init__(self, data: "Dataset", number: int):
        self._data = data
        self.number = number
        self._facts: Optional[Tuple[str, str, str, int, str]] = None

    def __getitem__(self, field: str) -> bytes:
        return self._data._core.read(self.number, field)

    def __iter__(self) -> Iterator[str]:
        return (f[0] for f in self._data._core.fields(self.number))

    def __len__(self) -> int:
        return len(self._data._core.fields(self.number))

    def __contains__(self, field: object) -> bool:
        return any(f[0] == field for f in self._data._core.fields(self.number))

    def __repr__(self) -> str:
        return f"<sample {self.number} {self.key!r}: {', '.join(self)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and other._data is self._data and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def _fact(self, i: int) -> Any:
        if self._facts is None:
            self._facts = self._data._core.sample(self.number)
        return self._facts[i]

    @property
    def key(self) -> str:
        """The name that its fields share."""
        return self._fact(0)

    @property
    def split(self) -> str:
        """"train", "val", ...; "data" where the source had no splits."""
        return self._fact(1)

    @property
    def class_name(self) -> Optional[str]:
        """The name of its class; None without classes."""
        return self._fact(2) if self._fact(3) >= 0 else None

    @property
    def label(self) -> int:
        """The number of its class; -1 without classes."""
        return self._fact(3)

    @property
    def shard(self) -> str:
        """The file it lies in; "" in a tree."""
        return self._fact(4)

    @property
    def fields(self) -> List[Field]:
        """What the index says of each field."""
        return [Field(*f) for f in self._data._core.fields(self.number)]

    def decode(self, field: Optional[str] = None, **options: Any) -> np.ndarray:
        """The field as an array; see Dataset.decode."""
        return self._data.decode(self.number, field, **options)


class Dataset(Sequence):
    """An open dataset: a sequence of samples, which are also found by key. Made by slimset.open.

    Any number of threads may use one; a child of fork may go on using its parent's. Pickled, it is a path: it is opened
    again where it is unpickled, and refused (ChangedError) when it was packed again meanwhile.
    """

    def __init__(self, path: PathLike, preload: Optional[str] = None, verify: bool = True):
        how = _checks.one_of("preload", preload, _PRELOAD)
        self.path = os.path.abspath(os.fspath(path))
        self._options = (preload, verify)
        self._core = _core.Reader(self.path, how, verify)
        info = self._core.info()
        self.fingerprint: str = info["index_hash"].to_bytes(8, "little").hex()
        self._n: int = info["samples"]
        self._cache: dict = {}

    def __reduce__(self) -> Tuple[Any, ...]:
        return _reopen, (self.path, *self._options, self.fingerprint)

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives files and memory back. Nothing can be read afterwards."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<slimset.Dataset {self.path!r}: {self._n} samples>"

    # --- samples

    def __len__(self) -> int:
        return self._n

    def number(self, which: Which) -> int:
        """The number of a sample, from its number (negative ones count from the end) or its key. NotFoundError."""
        if isinstance(which, str):
            return self._core.find(which)
        try:
            i = operator.index(which)
        except TypeError:
            raise TypeError(f"{which!r} is no number and no key of a sample") from None
        if i < 0:
            i += self._n
        if not 0 <= i < self._n:
            raise NotFoundError(f"{self.path}: there is no sample {which}, there are {self._n}")
        return i

    @overload
    def __getitem__(self, which: Which) -> Sample: ...
    @overload
    def __getitem__(self, which: slice) -> List[Sample]: ...

    def __getitem__(self, which: Union[Which, slice]) -> Union[Sample, List[Sample]]:
        """The sample of a number or a key; a list of them for a slice."""
        if isinstance(which, slice):
            return [Sample(self, i) for i in range(*which.indices(self._n))]
        return Sample(self, self.number(which))

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(self, i) for i in range(self._n))

    def __contains__(self, which: object) -> bool:
        if isinstance(which, Sample):
            return which._data is self
        try:
            self.number(which)  # type: ignore[arg-type]
        except (NotFoundError, TypeError):
            return False
        return True

    # --- what there is

    def _once(self, name: str, make: Any) -> Any:
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int32 (len,); -1 where a sample has none. Made once; not writable."""
        return self._once("labels", lambda: _frozen(np.frombuffer(self._core.labels(), "<i4")))

    @property
    def classes(self) -> List[str]:
        """Class names; the position is the class number."""
        return self._once("classes", self._core.classes)

    @property
    def splits(self) -> "dict[str, Split]":
        """The splits by name, in the order of their samples."""
        return self._once("splits", lambda: {s[0]: Split(*s) for s in self._core.splits()})

    @property
    def shards(self) -> List[Shard]:
        """The files, in the order of their samples."""
        return self._once("shards", lambda: [Shard(*p) for p in self._core.parts()])

    @property
    def meta(self) -> "dict[str, str]":
        """How it was made: "recipe.resize", "tool", ..."""
        return self._once("meta", lambda: dict(line.split("=", 1) for line in self._core.meta().split("\n") if line))

    @property
    def fields(self) -> List[str]:
        """Names of the fields of the first sample, which those of all samples are in an ordinary dataset."""
        return [f[0] for f in self._core.fields(0)] if self._n else []

    @property
    def metadata(self) -> np.ndarray:
        """One record a sample: key (str), split (str), label (int32, -1 none), shard (uint32, a position in shards), width
        and height (uint32, pixels, of its first image when it is upright, 0 none; image_size is that of decode), bytes (uint64,
        of all fields). Made once; not writable."""
        return self._once("metadata", self._metadata)

    def _metadata(self) -> np.ndarray:
        table, keys = self._core.rows()
        rows = np.frombuffer(table, _ROW)
        names = [keys[a:a + n].decode("utf-8", "surrogateescape")
                 for a, n in zip(rows["key_at"].tolist(), rows["key_n"].tolist())]
        key_n = max(map(len, names), default=1)
        split_n = max(map(len, self.splits), default=1)
        made = np.empty(self._n, [("key", f"<U{key_n}"), ("split", f"<U{split_n}"), ("label", "<i4"), ("shard", "<u4"),
                                  ("width", "<u4"), ("height", "<u4"), ("bytes", "<u8")])
        made["key"] = names
        for s in self.splits.values():
            made["split"][s.first:s.first + s.samples] = s.name
        for i, shard in enumerate(self.shards):
            made["shard"][shard.first:shard.first + shard.samples] = i
        for to, of in (("label", "label"), ("width", "w"), ("height", "h"), ("bytes", "bytes")):
            made[to] = rows[of]
        return _frozen(made)

    # --- contents

    def read(self, which: Which, field: str) -> bytes:
        """The bytes of a field, checked against their hash. A field is also found by its last extension ("png" for
        "seg.png") when only one has it."""
        return self._core.read(self.number(which), field)

    def decode(self, which: Which, field: Optional[str] = None, *, channels: Optional[int] = 3,
               layout: str = "hwc", scale: int = 1, crop: Optional[Tuple[int, int, int, int]] = None) -> np.ndarray:
        """A field as an array. None: the first image.

        JPEG and PNG: uint8 (uint16 for PNGs of 16 bits), (h, w, channels), or (channels, h, w) with layout="chw"; what Pillow
        gives for convert("RGB"). channels: 1 gray, 3 RGB, 4 RGB and alpha, None as stored (gray then has shape (h, w)).
        scale: 1, 2, 4 or 8, decodes to 1/scale, sizes rounded up; much cheaper for JPEG. crop: (top, left, height, width) in
        pixels of the full size; only what is needed is decoded, and the pixels are those of the whole picture.
        npy, npy.zst, npy.blosc: the array with its dtype and shape; the options do not matter.

        Pixels are not turned: of a file that was packed as it was, with an EXIF orientation, they come as they are stored
        (Field.orientation says how to turn them).
        """
        i = self.number(which)
        if field is not None and field.split(".")[-1] in ("npy", "zst", "blosc"):
            return as_array(*self._core.array(i, field))
        planes = _checks.one_of("channels", channels, _AS_STORED)
        chw = _checks.one_of("layout", layout, _LAYOUT)
        top, left, height, width = (0, 0, 0, 0) if crop is None else _checks.crop(crop)
        data, h, w, n, bits = self._core.decode(i, field, planes, chw, _checks.one_of("scale", scale, _SCALE), 0, 0, left, top,
                                                width, height)
        pixels = np.frombuffer(data, np.uint16 if bits > 8 else np.uint8)
        if planes == 0 and n == 1:
            return pixels.reshape(h, w)
        return pixels.reshape((n, h, w) if chw else (h, w, n))

    def image_size(self, which: Which, field: Optional[str] = None) -> Tuple[int, int]:
        """(height, width) in pixels of what decode gives: as stored, not turned."""
        return self._core.decode_size(self.number(which), field)

    def read_batch(self, indices: Indices, size: Tuple[int, int], *, field: Optional[str] = None, fit: str = "exact",
                   boxes: Optional[Any] = None, channels: int = 3, layout: str = "hwc", fast: bool = False,
                   nearest: bool = False, threads: int = 1, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Images decoded and resized to size = (height, width): uint8 (n, height, width, channels), or (n, channels, height,
        width) with layout="chw". All of it happens outside of the GIL, by `threads` threads (0: one a CPU).

        indices: numbers of samples. field: None, the first image of each. fit: "exact" bends the shape, "crop" takes the
        largest centred part of the wanted shape, "centre" cuts size pixels from the middle without resizing (0 beyond
        the edge). boxes: (n, 4) of (top, left, height, width), the parts that are used. The filter is Lanczos-3 as
        Pillow's; nearest: nearest neighbour, for masks. fast: JPEGs are decoded at the smallest scale that covers size;
        up to three times as fast and a little softer. out: an array to write into instead of a new one.
        """
        numbers = _checks.numbers(indices, self._n, self.path)
        height, width = _checks.sides("size", size)
        planes, chw = _checks.one_of("channels", channels, _CHANNELS), _checks.one_of("layout", layout, _LAYOUT)
        how, cut = _checks.one_of("fit", fit, _FIT), _checks.boxes(boxes, len(numbers))
        threads = _checks.whole("threads", threads, 0, 2 ** 31 - 1)
        shape = (len(numbers), planes, height, width) if chw else (len(numbers), height, width, planes)
        if out is None:
            out = np.empty(shape, np.uint8)
        elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.uint8 or not out.flags.c_contiguous or \
                not out.flags.writeable:
            raise ValueError(f"out: a writable uint8 array of shape {shape} without gaps is wanted")
        if len(numbers):
            self._core.decode_batch(numbers.tobytes(), field, width, height, how, planes, chw, bool(fast), bool(nearest), cut,
                                    threads, out.__array_interface__["data"][0], out.nbytes)
        return out

    def prefetch(self, indices: Indices) -> None:
        """Asks the system to read these samples ahead; returns at once."""
        self._core.prefetch(_checks.numbers(indices, self._n, self.path).tobytes())


def open(path: PathLike, preload: Optional[str] = None, verify: bool = True) -> Dataset:
    """Opens the dataset in the folder path; a million samples open in milliseconds.

    preload: "ram" puts all fields into memory that every process of this user on this machine shares; the first one fills
    it, the others attach at once; LimitError, with the numbers, when it does not fit. "page-cache" reads every shard once, so
    that the system has it in memory while there is room. verify: every field is checked against its hash when it is read.

    Raises NotFoundError (no dataset, or one whose pack has not finished), DamagedError, ChangedError (another version of the
    format), ReadError.
    """
    return Dataset(path, preload, verify)


def drop_preload(path: PathLike) -> int:
    """Removes what preload="ram" left in shared memory, say after a crash, of earlier packings of the folder too; how many bytes.
    Who is attached keeps it."""
    return _core.preload_drop(os.fspath(path))


def _reopen(path: str, preload: Optional[str], verify: bool, fingerprint: str) -> Dataset:
    data = Dataset(path, preload, verify)
    if data.fingerprint != fingerprint:
        raise ChangedError(f"{path} was packed again: another process still uses the dataset as it was before")
    return data


def as_array(values: bytearray, descr: str, shape: Tuple[int, ...], fortran: bool) -> np.ndarray:
    """What _core says of an array as one; descr as in a .npy file, which for a structured one is a list."""
    kind: Any = ast.literal_eval(descr) if descr.startswith("[") else descr
    return np.ndarray(shape, np.lib.format.descr_to_dtype(kind), values, order="F" if fortran else "C")


def _frozen(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a
