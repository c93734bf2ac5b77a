# SPDX-License-Identifier: Apache-2.0
"""What reading a dataset can raise. The texts name the file, and of damage also shard, sample and field."""


class Error(Exception):
    """All errors of slimset."""


class NotFoundError(Error, KeyError, IndexError):
    """No such dataset, sample, key or field. A folder whose pack has not finished is one of these: the text says how to
    go on."""

    __str__ = Exception.__str__  # KeyError would print the text in quotes


class DamagedError(Error):
    """A file of the dataset is not what was written: cut, overwritten, missing."""


class ChangedError(Error):
    """The dataset was packed again since it was opened, or written by another version of the format."""


class InputError(Error, ValueError):
    """The field is not what was asked for: not a picture, not an array, or a broken one that was packed as it was."""


class UsageError(Error, ValueError):
    """The request makes no sense: a crop outside of the picture, 16-bit pictures to be resized."""


class LimitError(Error):
    """It does not fit: preloading needs more memory than there is."""


class ReadError(Error, OSError):
    """The system could not read a file."""
