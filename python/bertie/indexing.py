"""Vectors that were saved with their texts, and what is nearest to a query."""

from __future__ import annotations

import os
from itertools import islice

from . import _bertie
from .errors import error
from .inputs import as_list, is_series
from .progress import Progress
from .tensors import to_numpy
from .text_model import Similar, TextModel, load

_AT_ONCE = 4096  # texts between two places to go on from


def make(model, texts, folder, numbers, prefix, windows, resume, progress):
    """What TextModel.index does."""
    # Of a folder its whole path, so that the index can be searched from anywhere.
    name = os.path.abspath(model.name) if os.path.isdir(model.name) else model.name
    how = f'prefix "{prefix}"; texts of more than {model.max_length} tokens are {"in windows" if windows else "cut"}'
    if model.precision != "fp32":
        how += f"; {model.precision}"
    writer = _bertie.VectorIndexWriter(os.fspath(folder), model.dimension, numbers, name, model.pooling, how, resume)
    if isinstance(texts, str):
        raise TypeError("texts is one text; an index is of many")
    if hasattr(texts, "tolist") or hasattr(texts, "iloc"):  # arrays, columns
        texts = as_list(texts)
    total = len(texts) if hasattr(texts, "__len__") else 0
    rest = iter(texts)
    for _ in islice(rest, len(writer)):
        pass
    with Progress(progress, "index") as told:
        while block := list(islice(rest, _AT_ONCE)):
            before = len(writer)
            tell = None if told is None else lambda done, _, before=before: told(before + done, total)
            vectors, _ = model.embed_with_rows(block, prefix=prefix, windows=windows, progress=tell)
            writer.add(vectors, block)
    writer.commit()
    return Index(folder, model)


class Index:
    """A folder that TextModel.index or `bertie index` wrote. Any number of threads may search it.

    model: that queries are read with; None: the one that the index was made with, loaded when it is first needed.
    """

    def __init__(self, folder, model=None, *, threads=0):
        self._index, self.folder, self._threads = _bertie.VectorIndex(os.fspath(folder)), os.fspath(folder), threads
        self._text_model = None
        if model is not None:
            self._text_model = self._checked(model if isinstance(model, TextModel) else load(model, threads=threads))

    def _checked(self, model):
        index = self._index
        if model.dimension != index.dimension or index.pooling not in ("", model.pooling):
            raise error(
                f"the index was made with {index.model}, {index.pooling} pooling and {index.dimension} numbers; "
                f"this model gives {model.pooling}, {model.dimension}",
                "the same model and pooling",
                "model",
            )
        return model

    @property
    def model(self):
        """The TextModel that queries are read with."""
        if self._text_model is None:
            self._text_model = self._checked(load(self._index.model or None, threads=self._threads))
        return self._text_model

    def search(self, query, top=10, *, prefix=""):
        """The texts nearest to a query by the cosine of their vectors, best first: Similar(index, score, text).

        Of several queries, a list for each. A query is a text, or a vector.
        """
        one = isinstance(query, str)
        if not one and not hasattr(query, "dtype"):
            query = as_list(query)
        if one:
            vectors = self.model.embed(query, prefix=prefix)[None]
        elif is_series(query) or (len(query) and isinstance(query[0], str)):
            vectors, _ = self.model.embed_with_rows(query, prefix=prefix)
        else:
            vectors = to_numpy(query, "float32")
            one = vectors.ndim == 1
            vectors = vectors[None] if one else vectors.reshape(len(vectors), -1)
            if not len(vectors):
                return []
        text = self._index.text
        found = [
            [Similar(r.index, r.score, text(r.index)) for r in ranked]
            for ranked in self._index.search(vectors, top, self._threads)
        ]
        return found[0] if one else found

    def __len__(self):
        return len(self._index)

    def __getitem__(self, i):
        """A text by its place."""
        if i < 0:
            i += len(self)
        if not 0 <= i < len(self):
            raise IndexError(f"the index has {len(self)} texts")
        return self._index.text(i)

    dimension = property(lambda self: self._index.dimension)
    numbers = property(lambda self: self._index.numbers, doc="'float16' or 'int8'")
    pooling = property(lambda self: self._index.pooling)
    how = property(lambda self: self._index.how, doc="what else the vectors depend on: a prefix, where texts are cut")

    def __repr__(self):
        return f"Index({self.folder!r}, {len(self):,} texts, {self.dimension} numbers each, {self.numbers})"

    def __reduce__(self):
        return type(self), (self.folder, self._text_model)
