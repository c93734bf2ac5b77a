# SPDX-License-Identifier: Apache-2.0
"""A decoder for webdataset that understands how slimset stores arrays: fields npy.zst and npy.blosc.

    import webdataset as wds, slimset.wds
    data = wds.WebDataset(urls).decode(slimset.wds, "rgb8")

The module itself is the handler; slimset.wds.decode is the function.
"""
import sys
import types
from typing import Any, Optional

import numpy as np

from . import _core
from .dataset import as_array


def decode(key: str, data: bytes) -> Optional[np.ndarray]:
    """The array of a member whose name ends in .npy.zst or .npy.blosc; None for every other member, which is then left to
    other handlers. Raises slimset.InputError or slimset.DamagedError."""
    if not key.lower().endswith((".npy.zst", ".npy.blosc")):
        return None
    return as_array(*_core.array_from(data, key))


class _Handler(types.ModuleType):
    def __call__(self, key: str, data: bytes) -> Any:
        return decode(key, data)


sys.modules[__name__].__class__ = _Handler
