# SPDX-License-Identifier: Apache-2.0
"""Arguments on their way into C: whole numbers in their ranges, words that are known. What is wrong is said with the value."""
import operator
from typing import Any, Mapping, Optional, Tuple

import numpy as np

from .errors import NotFoundError

_U32 = 2 ** 32 - 1


def whole(name: str, value: Any, low: int = 0, high: int = 2 ** 63 - 1) -> int:
    """The value as an int from low to high, of whatever type of integer. TypeError, ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: a whole number is wanted") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={value!r}: {low} to {high} is wanted")
    return number


def one_of(name: str, value: Any, allowed: Mapping) -> Any:
    """What the mapping has for a word, in any case, or for a number."""
    try:
        return allowed[value.lower() if isinstance(value, str) else value]
    except (KeyError, TypeError):
        raise ValueError(f"{name}={value!r}: one of {', '.join(map(repr, allowed))} is wanted") from None


def sides(name: str, size: Any) -> Tuple[int, int]:
    """(height, width) of a picture."""
    try:
        height, width = size
    except (TypeError, ValueError):
        raise ValueError(f"{name}={size!r}: (height, width) is wanted") from None
    return whole(f"{name}: height", height, 1, 2 ** 31 - 1), whole(f"{name}: width", width, 1, 2 ** 31 - 1)


def crop(box: Any) -> Tuple[int, int, int, int]:
    """(top, left, height, width)."""
    try:
        top, left, height, width = box
    except (TypeError, ValueError):
        raise ValueError(f"crop={box!r}: (top, left, height, width) is wanted") from None
    return (whole("crop: top", top, 0, _U32), whole("crop: left", left, 0, _U32),
            whole("crop: height", height, 1, _U32), whole("crop: width", width, 1, _U32))


def boxes(given: Any, n: int) -> Optional[bytes]:
    """n of (top, left, height, width) as struct slimset_box has them."""
    if given is None:
        return None
    wanted = f"boxes: shape ({n}, 4) of (top, left, height, width) is wanted"
    try:
        table = np.asarray(given)
    except ValueError:  # rows of several lengths
        raise ValueError(wanted) from None
    if table.shape != (n, 4) and n + table.size > 0:
        raise ValueError(f"{wanted}, not {table.shape}")
    if table.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}, whole numbers, not {table.dtype}")
    low = np.array([0, 0, 1, 1])
    if n == 0:
        return b""
    with np.errstate(invalid="ignore"):
        good = (table >= low) & (table <= _U32) & (table == np.floor(table))
    if not good.all():
        bad = int(np.argmin(good.all(axis=1)))
        raise ValueError(f"boxes[{bad}]={table[bad].tolist()}: whole numbers are wanted, top and left from 0, height and width "
                         f"from 1, all to {_U32}")
    return np.ascontiguousarray(table[:, [1, 0, 3, 2]].astype(np.uint32)).tobytes()


def numbers(indices: Any, n: int, path: str) -> np.ndarray:
    """Numbers of samples, uint64; negative ones count from the end."""
    given = np.asarray(indices)
    if given.ndim == 1 and given.size and given.dtype.kind in "fO":  # too large for one type of integer, or no integers
        for i in indices:
            if not hasattr(i, "__index__"):
                raise ValueError(f"a list of sample numbers is wanted, not of {i!r}")
            if not -n <= operator.index(i) < n:
                raise NotFoundError(f"{path}: there is no sample {i}, there are {n}")
        given = np.asarray([operator.index(i) for i in indices])
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError("a list of sample numbers is wanted")
    if given.size and not -n <= int(given.min()) <= int(given.max()) < n:
        bad = next(i for i in given.tolist() if not -n <= i < n)
        raise NotFoundError(f"{path}: there is no sample {bad}, there are {n}")
    given = given.astype(np.int64)
    return np.where(given < 0, given + n, given).astype(np.uint64)
