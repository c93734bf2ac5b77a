# SPDX-License-Identifier: Apache-2.0
"""Reads datasets that slimset packed.

    import slimset
    data = slimset.open("OUT")
    len(data), data.classes, data.labels
    data[0]["jpg"]                                   # bytes
    data["train/cat/0001"].decode("jpg")             # uint8 array (h, w, 3)
    data.read_batch([3, 1, 4], size=(224, 224))      # uint8 array (3, 224, 224, 3)

slimset.torch has a Dataset and a sampler for PyTorch, slimset.wds a decoder for webdataset.
"""
from .dataset import Dataset, Sample, drop_preload, open
from .errors import (ChangedError, DamagedError, Error, InputError, LimitError, NotFoundError, ReadError, UsageError)

__all__ = ["open", "Dataset", "Sample", "drop_preload", "Error", "NotFoundError", "DamagedError", "ChangedError",
           "InputError", "UsageError", "LimitError", "ReadError"]
