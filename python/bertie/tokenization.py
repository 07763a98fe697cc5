"""Tokenizers as transformers has them: tokenizer(text, return_tensors="pt") and what goes with it."""

from __future__ import annotations

import os

from . import _bertie
from .checkpoints import read_json, resolve
from .inputs import as_list
from .tensors import to_numpy, to_torch

_WITH_TYPES = ("bert", "albert")
_SPECIAL = ("cls", "sep", "pad", "unk", "mask", "bos", "eos")
_TRUNCATE = {
    True: "longest_first",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
}
_NO_LIMIT = int(1e30)  # transformers' VERY_LARGE_INTEGER


class BatchEncoding(dict):
    """What a tokenizer gives: a dict of lists or tensors, whose keys are attributes too, to call a model with."""

    def __init__(self, data, encodings, tokenizer, words=None, one=False):
        super().__init__(data)
        self._encodings, self._tokenizer, self._words, self._one = encodings, tokenizer, words, one

    @property
    def data(self):
        return dict(self)

    @property
    def encodings(self):
        return self._encodings

    is_fast = True

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return self._encodings[key] if isinstance(key, int) else super().__getitem__(key)

    def to(self, *_, **__):
        """Bertie computes where the tensors are: nothing moves."""
        return self

    def tokens(self, batch_index=0):
        return self._tokenizer.convert_ids_to_tokens(self._encodings[batch_index].ids)

    def word_ids(self, batch_index=0):
        encoding = self._encodings[batch_index]
        words = encoding.words if self._words is None else self._words[batch_index]
        return [None if w < 0 else w for w in words]

    words = word_ids

    def sequence_ids(self, batch_index=0):
        return [None if s < 0 else s for s in self._encodings[batch_index].sequences]

    def token_to_chars(self, batch_or_token_index, token_index=None):
        """The place of a token in its text; None of one that was added."""
        batch, token = (0, batch_or_token_index) if token_index is None else (batch_or_token_index, token_index)
        encoding = self._encodings[batch]
        return None if encoding.sequences[token] < 0 else encoding.offsets[token]

    def char_to_token(self, batch_or_char_index, char_index=None, sequence_index=0):
        """The token that has this character of a text; None where none has."""
        batch, place = (0, batch_or_char_index) if char_index is None else (batch_or_char_index, char_index)
        encoding = self._encodings[batch]
        for i, (begin, end) in enumerate(encoding.offsets):
            if encoding.sequences[i] == sequence_index and begin <= place < end:
                return i
        return None

    def convert_to_tensors(self, tensor_type):
        """Lists of equal lengths as tensors of torch's ("pt") or arrays of NumPy's ("np")."""
        return BatchEncoding(
            {k: _tensor(v, tensor_type, self._one) for k, v in self.items()},
            self._encodings,
            self._tokenizer,
            self._words,
        )


def _tensor(rows, kind, one=False):
    if one:
        rows = [rows]
    if len({len(r) for r in rows if isinstance(r, list)}) > 1:
        raise ValueError("sequences of different lengths do not make a tensor: padding=True makes them equal")
    array = to_numpy(rows, "int64")
    if kind in ("np", "numpy"):
        return array
    if kind in ("pt", "pytorch", "torch"):
        return to_torch(array)
    raise ValueError(f"return_tensors is 'pt' or 'np', not {kind!r}")


class PreTrainedTokenizer:
    """A tokenizer by transformers' names. Ids and places are those of its fast tokenizers."""

    is_fast = True
    truncation_side = "right"
    pad_token_type_id = 0

    def __init__(self, files, padding_side=None, model_max_length=None):
        self._tokenizer = _bertie.Tokenizer.load(files)
        self.name_or_path = files
        settings = read_json(files, "tokenizer_config.json")
        self.padding_side = padding_side or settings.get("padding_side", "right")
        limit = model_max_length or self._tokenizer.model_max_length
        self.model_max_length = _NO_LIMIT if limit is None else limit
        family = read_json(files, "config.json").get("model_type") or settings.get("tokenizer_class", "Bert").lower()
        with_types = family.startswith(_WITH_TYPES)
        names = ["input_ids", "token_type_ids", "attention_mask"] if with_types else ["input_ids", "attention_mask"]
        self.model_input_names = settings.get("model_input_names", names)
        self._pad_id = self._tokenizer.pad_id

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path=None,
        *_,
        padding_side=None,
        model_max_length=None,
        revision=None,
        local_files_only=False,
        **__,
    ):
        """By a name, from a folder, or, without either, that of the model in the box."""
        files = resolve(pretrained_model_name_or_path, revision=revision, local_files_only=local_files_only)
        return cls(files, padding_side, model_max_length)

    def save_pretrained(self, save_directory, **_):
        """Copies the tokenizer's files."""
        os.makedirs(save_directory, exist_ok=True)
        saved = []
        for name in _bertie.model_files(self.name_or_path):
            if name in _FILES:
                saved.append(os.path.join(save_directory, name))
                with open(saved[-1], "wb") as file:
                    file.write(_bertie.read_model_file(self.name_or_path, name))
        return tuple(saved)

    # Text to ids.

    def __call__(
        self,
        text,
        text_pair=None,
        add_special_tokens=True,
        padding=False,
        truncation=None,
        max_length=None,
        stride=0,
        is_split_into_words=False,
        pad_to_multiple_of=None,
        return_tensors=None,
        return_token_type_ids=None,
        return_attention_mask=None,
        return_overflowing_tokens=False,
        return_special_tokens_mask=False,
        return_offsets_mapping=False,
        return_length=False,
        **_,
    ):
        one = isinstance(text, str) or (is_split_into_words and bool(text) and isinstance(text[0], str))
        texts, pairs, split = self._texts(text, text_pair, one, is_split_into_words)
        limit = self._limit(truncation, max_length)
        windows = return_overflowing_tokens and limit is not None
        options = {
            "max_length": limit,
            "stride": stride,
            "truncate": _TRUNCATE.get(truncation, "longest_first"),
            "add_special_tokens": add_special_tokens,
        }
        if windows:
            groups = [self._tokenizer.encode_many([t], p, windows=True, **options) for t, p in _each(texts, pairs)]
            encodings = [e for group in groups for e in group]
            sources = [i for i, group in enumerate(groups) for _ in group]
        else:
            encodings = self._tokenizer.encode_many(texts, pairs, **options)
            sources = range(len(encodings))
        one = one and not windows
        words = None if split is None else [split[s].words_of(e) for s, e in zip(sources, encodings)]

        data = {"input_ids": [e.ids for e in encodings]}
        if return_token_type_ids or (return_token_type_ids is None and "token_type_ids" in self.model_input_names):
            data["token_type_ids"] = [e.types for e in encodings]
        if return_attention_mask or return_attention_mask is None:
            data["attention_mask"] = [[1] * len(e.ids) for e in encodings]
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [[int(s < 0) for s in e.sequences] for e in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [
                (e.offsets if split is None else split[s].offsets_of(e)) for s, e in zip(sources, encodings)
            ]
        if return_length:
            data["length"] = [len(e.ids) for e in encodings]
        if windows:
            data["overflow_to_sample_mapping"] = list(sources)
        data = self._padded(data, padding, max_length if limit is None else limit, pad_to_multiple_of)
        if return_tensors is not None:
            data = {k: _tensor(v, return_tensors) for k, v in data.items()}
        elif one:
            data = {k: v[0] for k, v in data.items()}
        return BatchEncoding(data, encodings, self, words, one and return_tensors is None)

    def _texts(self, text, text_pair, one, is_split_into_words):
        if is_split_into_words:
            if text_pair is not None:
                raise ValueError("is_split_into_words is for texts without a second one")
            split = [_Words(words) for words in ([text] if one else text)]
            return [s.text for s in split], None, split
        if one:
            return [text], None if text_pair is None else [text_pair], None
        text = as_list(text)
        if text_pair is None and text and not isinstance(text[0], str):  # a list of pairs
            return [a for a, _ in text], [b for _, b in text], None
        return text, None if text_pair is None else as_list(text_pair), None

    def _limit(self, truncation, max_length):
        """Of ids, where texts are to be cut."""
        if truncation in (None, False, "do_not_truncate"):
            return None
        if truncation not in _TRUNCATE:
            raise ValueError(
                f"truncation is True, False, {', '.join(map(repr, list(_TRUNCATE)[1:]))}, not {truncation!r}"
            )
        limit = self.model_max_length if max_length is None else max_length
        return None if limit >= _NO_LIMIT else limit

    def _padded(self, data, padding, max_length, multiple):
        if padding in (False, None, "do_not_pad"):
            return data
        lengths = [len(ids) for ids in data["input_ids"]]
        if padding in (True, "longest"):
            length = max(lengths, default=0)
        elif padding == "max_length":
            length = self.model_max_length if max_length is None else max_length
            if length >= _NO_LIMIT:
                raise ValueError("the model's files do not say how long a text may be: give max_length")
        else:
            raise ValueError(f"padding is True, False, 'longest' or 'max_length', not {padding!r}")
        if multiple:
            length = -(-length // multiple) * multiple
        if self._pad_id is None and any(n < length for n in lengths):
            raise ValueError(
                "the tokenizer has no padding token: tokenizer.pad_token = tokenizer.eos_token gives it one"
            )
        fillers = {
            "input_ids": self._pad_id,
            "token_type_ids": self.pad_token_type_id,
            "attention_mask": 0,
            "special_tokens_mask": 1,
            "offset_mapping": (0, 0),
        }
        left = self.padding_side == "left"
        for key, filler in fillers.items():
            rows = data.get(key, ())
            for i, row in enumerate(rows):
                fill = [filler] * (length - len(row))
                rows[i] = fill + row if left else row + fill
        return data

    encode_plus = batch_encode_plus = __call__

    def pad(self, encoded_inputs, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors=None, **_):
        """Pads what was encoded before: a dict of lists, or a list of dicts."""
        if not isinstance(encoded_inputs, dict):
            encoded_inputs = {k: [e[k] for e in encoded_inputs] for k in encoded_inputs[0]}
        data = {k: [list(row) for row in rows] for k, rows in encoded_inputs.items()}
        data.setdefault("attention_mask", [[1] * len(ids) for ids in data["input_ids"]])
        data = self._padded(data, padding, max_length, pad_to_multiple_of)
        if return_tensors is not None:
            data = {k: _tensor(v, return_tensors) for k, v in data.items()}
        return BatchEncoding(data, [], self)

    def encode(self, text, text_pair=None, return_tensors=None, **options):
        """The ids alone."""
        return self(text, text_pair, return_tensors=return_tensors, **options)["input_ids"]

    def tokenize(self, text, pair=None, add_special_tokens=False, **_):
        return self.convert_ids_to_tokens(self._tokenizer.encode(text, pair, add_special_tokens=add_special_tokens).ids)

    # Ids to text.

    def decode(self, token_ids, skip_special_tokens=False, **_):
        """The text of ids; of a list of lists, a list of texts."""
        ids = _ids(token_ids)
        if ids and isinstance(ids[0], list):
            return self.batch_decode(ids, skip_special_tokens)
        return self._tokenizer.decode(ids, skip_special_tokens)

    def batch_decode(self, sequences, skip_special_tokens=False, **_):
        return [self._tokenizer.decode(_ids(ids), skip_special_tokens) for ids in sequences]

    def convert_ids_to_tokens(self, ids, skip_special_tokens=False):
        ids = _ids(ids)
        if isinstance(ids, int):
            return self._tokenizer.token(ids)
        return [self._tokenizer.token(i) for i in ids if not (skip_special_tokens and self._tokenizer.is_special(i))]

    def convert_tokens_to_ids(self, tokens):
        if isinstance(tokens, str):
            found = self._tokenizer.id(tokens)
            return self.unk_token_id if found is None else found
        return [self.convert_tokens_to_ids(t) for t in tokens]

    def convert_tokens_to_string(self, tokens):
        return self._tokenizer.join(list(tokens))

    # The vocabulary.

    @property
    def vocab_size(self):
        return self._tokenizer.vocab_size

    def __len__(self):
        return self._tokenizer.vocab_size

    def get_vocab(self):
        tokens = ((self._tokenizer.token(i), i) for i in range(self._tokenizer.vocab_size))
        return {token: i for token, i in tokens if token}

    vocab = property(get_vocab)

    @property
    def pad_token_id(self):
        return self._pad_id

    @property
    def pad_token(self):
        return None if self._pad_id is None else self._tokenizer.token(self._pad_id)

    @pad_token.setter
    def pad_token(self, token):
        found = self._tokenizer.id(token)
        if found is None:
            raise ValueError(f"the vocabulary has no token {token!r}")
        self._pad_id = found

    @property
    def all_special_ids(self):
        ids = [getattr(self, f"{name}_token_id") for name in _SPECIAL]
        return sorted({i for i in ids if i is not None})

    @property
    def all_special_tokens(self):
        return self.convert_ids_to_tokens(self.all_special_ids)

    @property
    def special_tokens_map(self):
        names = {f"{name}_token": getattr(self, f"{name}_token") for name in _SPECIAL}
        return {name: token for name, token in names.items() if token is not None}

    def num_special_tokens_to_add(self, pair=False):
        return len(self._tokenizer.encode("", "" if pair else None).ids)

    def __repr__(self):
        return f"{type(self).__name__}({self.name_or_path!r}, {self.vocab_size} tokens)"

    def __reduce__(self):
        return type(self), (self.name_or_path, self.padding_side, self.model_max_length)


def _special(name):
    """A special token's id and its name, as properties."""

    def token_id(self):
        return getattr(self._tokenizer, f"{name}_id")

    def token(self):
        found = token_id(self)
        return None if found is None else self._tokenizer.token(found)

    return property(token_id), property(token)


for _name in _SPECIAL:
    if _name != "pad":  # which can be set
        _id, _token = _special(_name)
        setattr(PreTrainedTokenizer, f"{_name}_token_id", _id)
        setattr(PreTrainedTokenizer, f"{_name}_token", _token)


class _Words:
    """Words that were given apart, as one text; tokens find their words by their places in it."""

    def __init__(self, words):
        words = [str(w) for w in words]
        self.text = " ".join(words)
        self._begins, self._word_at, at = [], {}, 0
        for number, word in enumerate(words):
            self._begins.append(at)
            self._word_at.update(dict.fromkeys(range(at, at + max(len(word), 1)), number))
            at += len(word) + 1

    def words_of(self, encoding):
        return [
            -1 if sequence < 0 else self._word_at.get(end - 1, -1)
            for sequence, (_, end) in zip(encoding.sequences, encoding.offsets)
        ]

    def offsets_of(self, encoding):
        """Within each word, as transformers counts."""
        return [
            (0, 0) if word < 0 else (max(begin - self._begins[word], 0), end - self._begins[word])
            for word, (begin, end) in zip(self.words_of(encoding), encoding.offsets)
        ]


def _each(texts, pairs):
    return ((t, None if pairs is None else [pairs[i]]) for i, t in enumerate(texts))


def _ids(ids):
    return ids.tolist() if hasattr(ids, "tolist") else ids


# What a tokenizer is read from.
_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)


class AutoTokenizer(PreTrainedTokenizer):
    """The tokenizer of any model."""


for _family in ("Bert", "DistilBert", "Roberta", "XLMRoberta", "Camembert", "Albert", "GPT2"):
    for _suffix in ("Tokenizer", "TokenizerFast"):
        _made = type(
            _family + _suffix, (PreTrainedTokenizer,), {"__module__": __name__, "__doc__": PreTrainedTokenizer.__doc__}
        )
        globals()[_family + _suffix] = _made
