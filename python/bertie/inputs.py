"""One text or many, in lists, arrays or pandas' columns."""

from __future__ import annotations

import sys


def is_series(x) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.Series)


def as_list(x) -> list:
    """A list, of whatever holds texts: a list, a tuple, a generator, an array, a column."""
    if type(x) is list:
        return x
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # as a list it would be its columns' names
        raise TypeError(
            f"a DataFrame is no column of texts: give one of its columns, {', '.join(map(repr, x.columns))}"
        )
    return x.tolist() if hasattr(x, "tolist") else list(x)


def index_of(*inputs):
    """The index of the first column of pandas', for what is made from it; None where there is none."""
    for x in inputs:
        if is_series(x):
            return x.index
    return None


def as_pairs(a, b) -> list:
    """Pairs of a and b, one of which may be one text for all of the other; or a itself, pairs already."""
    if b is None:
        return as_list(a)
    if isinstance(a, str):
        b = as_list(b)
        return [(a, text) for text in b]
    a = as_list(a)
    if isinstance(b, str):
        return [(text, b) for text in a]
    b = as_list(b)
    if len(a) != len(b):
        raise ValueError(f"there are {len(a)} first texts and {len(b)} second ones")
    return list(zip(a, b))


def frame(index, columns):
    """A DataFrame with this index."""
    import pandas

    return pandas.DataFrame(columns, index=index)
