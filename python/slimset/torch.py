# SPDX-License-Identifier: Apache-2.0
"""A packed dataset for PyTorch: a map-style Dataset, and a sampler for disks that are slow at random reads.

    import slimset.torch, torch
    data = slimset.torch.Dataset("OUT", split="train", decode="torchrgb8", crop=224)
    sampler = slimset.torch.ShardSampler(data, seed=1)
    loader = torch.utils.data.DataLoader(data, batch_size=64, sampler=sampler, num_workers=4)
    for epoch in range(90):
        sampler.set_epoch(epoch)
        for images, labels in loader: ...        # uint8 (64, 3, 224, 224), int64 (64,)
"""
from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from . import _checks
from . import dataset as _dataset
from .errors import UsageError

Box = Tuple[int, int, int, int]
Crop = Union[int, Tuple[int, int], Callable[[int, int], Box]]

_DECODES = ("rgb8", "torchrgb8", "bytes", "numpy")


def _random(high: int) -> int:
    """0 .. high - 1, from PyTorch's generator, which a DataLoader seeds in each worker."""
    return int(torch.empty((), dtype=torch.int64).random_(high))


def _sides(name: str, size: Union[int, Sequence]) -> Tuple[int, int]:
    """(height, width), from that or from one number for both."""
    return _checks.sides(name, size if np.ndim(size) else (size, size))


class RandomCrop:
    """A box of size = (height, width) somewhere in the picture, as torchvision's RandomCrop without padding."""

    def __init__(self, size: Union[int, Tuple[int, int]]):
        self.size = _sides("size", size)

    def __call__(self, height: int, width: int) -> Box:
        h, w = self.size
        if h > height or w > width:
            raise UsageError(f"a crop of {h} x {w} does not fit into a picture of {height} x {width} (height x width)")
        return _random(height - h + 1), _random(width - w + 1), h, w


class CenterCrop(RandomCrop):
    """A box of size = (height, width) in the middle."""

    def __call__(self, height: int, width: int) -> Box:
        h, w = self.size
        if h > height or w > width:
            raise UsageError(f"a crop of {h} x {w} does not fit into a picture of {height} x {width} (height x width)")
        return (height - h) // 2, (width - w) // 2, h, w


class RandomResizedCrop:
    """A box of random area and shape, chosen as torchvision's RandomResizedCrop chooses it. Use it with size=."""

    def __init__(self, scale: Tuple[float, float] = (0.08, 1.0), ratio: Tuple[float, float] = (3 / 4, 4 / 3)):
        self.scale, self.ratio = scale, ratio

    def __call__(self, height: int, width: int) -> Box:
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for u, v in torch.rand(10, 2).tolist():
            area = height * width * (self.scale[0] + u * (self.scale[1] - self.scale[0]))
            shape = math.exp(low + v * (high - low))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return _random(height - h + 1), _random(width - w + 1), h, w
        shape = min(max(width / height, self.ratio[0]), self.ratio[1])
        w, h = min(width, round(height * shape)), min(height, round(width / shape))
        return (height - h) // 2, (width - w) // 2, h, w


class Dataset(torch.utils.data.Dataset):
    """The samples of a split as (image, label); without classes, images alone.

    path: the folder, or a slimset.Dataset. split: its name; None, all samples. field: which image; None, the first.
    decode:
      "rgb8"       uint8 array (h, w, 3)
      "torchrgb8"  uint8 tensor (3, h, w)
      "bytes"      the bytes of the field as they are stored
      "numpy"      a dict of all fields instead of a pair: JPEG, PNG and arrays as arrays, cls as int, others as bytes, and
                   "__key__"
    crop: N or (height, width), a random box of that size; or a function (height, width) -> (top, left, height, width). Only
    what the box needs is decoded. size: N or (height, width), what comes out is resized to that, in one step with the crop;
    without a crop the largest centred part of that shape is taken. transform, target_transform: applied to image and label.

    May be used from any number of workers, forked or spawned: pickled, it is opened again by its path, and refused
    (ChangedError) when it was packed again meanwhile.
    """

    def __init__(self, path: Union[_dataset.PathLike, _dataset.Dataset], split: Optional[str] = None, *, decode: str = "rgb8",
                 field: Optional[str] = None, crop: Optional[Crop] = None, size: Union[int, Tuple[int, int], None] = None,
                 transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 preload: Optional[str] = None, verify: bool = True):
        if decode not in _DECODES:
            raise ValueError(f"decode={decode!r}: one of {', '.join(_DECODES)} is wanted")
        if decode in ("bytes", "numpy") and (crop is not None or size is not None):
            raise ValueError(f"crop and size go with decode=\"rgb8\" and \"torchrgb8\", not with {decode!r}")
        self.data = path if isinstance(path, _dataset.Dataset) else _dataset.open(path, preload, verify)
        if split is not None and split not in self.data.splits:
            raise ValueError(f"split={split!r}: {self.data.path} has {', '.join(self.data.splits)}")
        self.split = split
        self.decode, self.field, self.transform, self.target_transform = decode, field, transform, target_transform
        self.crop = crop if crop is None or callable(crop) else RandomCrop(crop)
        self.size = None if size is None else _sides("size", size)
        whole = _dataset.Split("", 0, len(self.data))
        self.first, self.n = (self.data.splits[split] if split is not None else whole)[1:]

    @property
    def classes(self) -> List[str]:
        """Class names; the position is the label."""
        return self.data.classes

    @property
    def labels(self) -> np.ndarray:
        """The labels of all its samples, int32."""
        return self.data.labels[self.first:self.first + self.n]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        i = operator.index(i)
        if i < 0:
            i += self.n
        if not 0 <= i < self.n:
            raise IndexError(f"sample {i} of {self.n}")
        i += self.first
        x = self._everything(i) if self.decode == "numpy" else self._image(i)
        if self.transform is not None:
            x = self.transform(x)
        if self.decode == "numpy" or not self.data.classes:
            return x
        label = int(self.data.labels[i])
        return x, label if self.target_transform is None else self.target_transform(label)

    def _image(self, i: int) -> Any:
        if self.decode == "bytes":
            return self.data.read(i, self.field if self.field is not None else _first_image(self.data, i))
        layout = "hwc" if self.decode == "rgb8" else "chw"
        box = self.crop(*self.data.image_size(i, self.field)) if self.crop is not None else None
        if self.size is not None:
            pixels = self.data.read_batch([i], self.size, field=self.field, layout=layout,
                                          fit="crop" if box is None else "exact", boxes=None if box is None else [box])[0]
        else:
            pixels = self.data.decode(i, self.field, layout=layout, crop=box)
        return torch.from_numpy(pixels) if layout == "chw" else pixels

    def _everything(self, i: int) -> Dict[str, Any]:
        sample = self.data[i]
        out: Dict[str, Any] = {"__key__": sample.key}
        for f in sample.fields:
            if f.role in ("image", "mask", "depth") and f.width and f.format in ("jpeg", "png"):
                out[f.name] = self.data.decode(i, f.name, channels=None)
            elif f.name.split(".")[-1] in ("npy", "zst", "blosc") and f.format.startswith("npy"):
                out[f.name] = self.data.decode(i, f.name)
            else:
                out[f.name] = int(sample[f.name]) if f.role == "label" else sample[f.name]
        return out


def _first_image(data: _dataset.Dataset, i: int) -> str:
    for f in data[i].fields:
        if f.role == "image":
            return f.name
    raise UsageError(f"sample {data[i].key} has no image: name a field")


class ShardSampler(torch.utils.data.Sampler):
    """Every sample once an epoch, in an order that reads shard after shard: shards are shuffled, then samples within a
    window of `window` neighbours (0: not at all; shuffle=False: in the order of the dataset). A disk reads forward then, and
    a window of several shards is as good as a full shuffle for most purposes.

    seed and set_epoch decide the order, which is the same on every machine. rank, num_replicas: which part of the epoch is
    this process's (None: as torch.distributed says, if it is in use). All ranks get the same number of samples; the last ones
    of an epoch are made of its first ones where it does not divide (drop_last: left out instead).

    Every iter() begins the current epoch anew, but for the first one after load_state_dict(), which goes on at its position;
    len() is what that one gives. state_dict() says how far the newest iterator has come; once the epoch is complete, that is the
    beginning of the next one. A DataLoader asks for batches ahead of what it hands out: pass the samples that were trained on in
    this epoch, state_dict(batches * batch_size), those before a load included.
    """

    def __init__(self, data: Union[Dataset, _dataset.Dataset], *, shuffle: bool = True, window: int = 4096, seed: int = 0,
                 rank: Optional[int] = None, num_replicas: Optional[int] = None, drop_last: bool = False):
        spread = torch.distributed.is_available() and torch.distributed.is_initialized()
        if num_replicas is None:
            num_replicas = torch.distributed.get_world_size() if spread else 1
        if rank is None:
            rank = torch.distributed.get_rank() if spread else 0
        num_replicas = _checks.whole("num_replicas", num_replicas, 1)
        rank = _checks.whole("rank", rank, 0, num_replicas - 1)
        window, seed = _checks.whole("window", window), _checks.whole("seed", seed)
        self.shuffle, self.window, self.seed = shuffle, window, seed
        self.rank, self.num_replicas, self.drop_last = rank, num_replicas, drop_last
        inner = data.data if isinstance(data, Dataset) else data
        first, n = (data.first, data.n) if isinstance(data, Dataset) else (0, len(data))
        self._n = n
        self._fingerprint = inner.fingerprint
        self._ranges = [(s.first - first, s.samples) for s in inner.shards
                        if s.samples and first <= s.first < first + n]
        self._each = n // num_replicas if drop_last else -(-n // num_replicas)
        self._epoch = 0
        self._begin = 0        # of the newest pass, or of the one to come after a load
        self._loaded = False   # the next pass goes on at _begin
        self._position = 0     # samples of this epoch that the newest pass has handed out, with those before _begin
        self._passes = 0       # the newest one's number

    def __len__(self) -> int:
        """Samples of this rank in an epoch; what is left of it after load_state_dict."""
        return self._each - self._begin

    def set_epoch(self, epoch: int) -> None:
        """Another order, from its beginning. The same epoch again leaves a loaded position as it is."""
        epoch = _checks.whole("epoch", epoch)
        if epoch != self._epoch:
            self._go_to(epoch, 0)

    def _go_to(self, epoch: int, position: int) -> None:
        self._epoch, self._begin, self._position, self._loaded = epoch, position, position, True
        self._passes += 1  # iterators of before do not count any more

    def order(self) -> np.ndarray:
        """The numbers of this rank's samples in the order of this epoch, int64."""
        random = np.random.Generator(np.random.PCG64([self.seed, self._epoch]))
        shards = list(self._ranges)
        if self.shuffle:
            shards = [shards[i] for i in random.permutation(len(shards))]
        order = np.concatenate([np.arange(a, a + n) for a, n in shards]) if shards else np.arange(0)
        if self.shuffle and self.window > 1 and len(order):
            begin = -int(random.integers(self.window))  # so that windows do not meet at the same places every epoch
            for at in range(begin, len(order), self.window):
                random.shuffle(order[max(at, 0):at + self.window])
        each = self._each
        if each * self.num_replicas > len(order):
            order = np.resize(order, each * self.num_replicas)
        return order[self.rank * each:(self.rank + 1) * each]

    def __iter__(self) -> Iterator[int]:
        if not self._loaded:
            self._begin = 0
        self._loaded, self._position = False, self._begin
        self._passes += 1
        return self._pass(self._passes, self.order().tolist(), self._begin)

    def _pass(self, number: int, order: List[int], begin: int) -> Iterator[int]:
        for i in range(begin, len(order)):
            if number == self._passes:
                self._position = i + 1
            yield order[i]
        if number == self._passes:
            self._begin = 0

    def state_dict(self, consumed: Optional[int] = None) -> Dict[str, Any]:
        """Where the training stands, fit for JSON; consumed: samples of this rank that were used in this epoch, instead of those
        that were handed out (a short last batch may be counted as a whole one)."""
        position = self._position if consumed is None else _checks.whole("consumed", consumed)
        done = position >= self._each > 0
        return {"epoch": self._epoch + done, "position": 0 if done else position, "seed": self.seed,
                "shuffle": self.shuffle, "window": self.window, "rank": self.rank, "num_replicas": self.num_replicas,
                "drop_last": self.drop_last, "fingerprint": self._fingerprint}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on where state_dict was taken. ValueError when the dataset or the sampler is another one."""
        mine = self.state_dict()
        for name in sorted(set(mine) - {"epoch", "position"}):
            if mine[name] != state.get(name):
                raise ValueError(f"the state is of another {name}: {state.get(name)!r}, not {mine[name]!r}")
        self._go_to(_checks.whole("epoch", state["epoch"]),
                    _checks.whole("position", state["position"], 0, max(self._each - 1, 0)))
