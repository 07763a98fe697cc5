"""bertie.load: texts in; vectors, attention, labels, entities, answers and texts out."""

from __future__ import annotations

from collections import namedtuple

from . import _bertie
from .inputs import as_list, as_pairs, frame, index_of
from .progress import Progress

EMBEDDED = "bertie-mini"
# What bertie-mini was fine-tuned for, by the head that it takes.
_EMBEDDED_FOR = {"classify": "bertie-mini/sentiment", "tag": "bertie-mini/entities"}
_POOLINGS = ("cls", "mean", "max", "mean_sqrt_length")
_AS_LOADED = {"threads": 0, "max_length": 0, "precision": "fp32", "strict": False, "pooling": None, "heads_off": ()}

Similar = namedtuple("Similar", "index score text")


class Tokens:
    """A text as tokens: ids, types, offsets, words (see Encoding), and what they spell."""

    __slots__ = ("encoding", "tokens")

    def __init__(self, encoding, tokenizer):
        self.encoding = encoding
        self.tokens = [tokenizer.token(i) for i in encoding.ids]

    ids = property(lambda self: self.encoding.ids)
    types = property(lambda self: self.encoding.types)
    offsets = property(lambda self: self.encoding.offsets, doc="(begin, end) of each token in its text")
    words = property(lambda self: self.encoding.words)
    sequences = property(lambda self: self.encoding.sequences)
    truncated = property(lambda self: self.encoding.truncated)

    def keys(self):
        return ("tokens", *self.encoding.keys())

    def __getitem__(self, field):
        return self.tokens if field == "tokens" else self.encoding[field]

    def __len__(self):
        return len(self.tokens)

    def __iter__(self):
        return iter(self.tokens)

    def __repr__(self):
        return f"Tokens({self.tokens!r})"


class TextModel:
    """A model and its tokenizer. Every task takes one text, or many; any number of threads may call.

    Many texts come as a list, an array or any iterable, and give a list of results, or an array; a column of pandas'
    gives a DataFrame with the same index. `progress` is True, a class like tqdm's, or a function of (done, total).
    """

    def __init__(self, model, name, whole_family=False, options=None):
        self._model, self.name = model, name
        # What it takes to load it again: of load, and of what was asked of it since.
        self._options = {**_AS_LOADED, **(options or {})}
        # Loaded without a name: other tasks go to what was fine-tuned from the embedded model.
        self._whole_family, self._siblings = whole_family, {}

    def _able(self, head):
        """The model for a head: itself, or what was fine-tuned from the embedded one."""
        name = _EMBEDDED_FOR.get(head) if self._whole_family else None
        if name is None or name not in _bertie.embedded_models():
            return self._model
        if name not in self._siblings:
            self._siblings[name] = _load(name, self._options)
        return self._siblings[name]

    # Vectors.

    def embed(self, texts, *, normalize=None, prefix="", windows=False, progress=None):
        """A vector of each text: (dimension,) of one, (texts, dimension) of many.

        normalize: to length 1, None: as the model's files say. prefix: goes before each text. windows: a text that is
        too long goes in windows, and its vector is their mean; without it, it is cut.
        """
        if isinstance(texts, str):
            return self._model.embed_one(texts, normalize, prefix, windows)
        vectors, _ = self._embed(texts, normalize, prefix, windows, progress)
        index = index_of(texts)
        return vectors if index is None else frame(index, vectors)

    def embed_with_rows(self, texts, *, normalize=None, prefix="", windows=False, progress=None):
        """As embed of many texts; and of each how many tokens were read, and whether it was cut."""
        return self._embed(texts, normalize, prefix, windows, progress)

    def _embed(self, texts, normalize, prefix, windows, progress):
        with Progress(progress, "embed") as told:
            return self._model.embed(as_list(texts), normalize, prefix, windows, told)

    def token_vectors(self, texts, *, prefix="", progress=None):
        """Every token's vector after the last layer: (tokens, hidden size) for each text."""
        one = isinstance(texts, str)
        with Progress(progress, "embed") as told:
            all_vectors = self._model.token_vectors([texts] if one else as_list(texts), None, prefix, told)
        return all_vectors[0] if one else all_vectors

    def similar(self, query, texts=None, *, top=10, prefix="", progress=None):
        """The texts nearest to a query by the cosine of their vectors, best first: Similar(index, score, text).

        Of several queries, a list for each. Without texts, each of the first ones with each other: a matrix.
        """
        if texts is None:
            vectors, _ = self._embed(query, None, prefix, False, progress)
            return _bertie.similarity(vectors, vectors)
        index = index_of(texts)
        texts = as_list(texts)
        vectors, _ = self._embed(texts, None, prefix, False, progress)

        def nearest(vector):
            ranked = _bertie.rank(vector, vectors, top)
            if index is not None:
                places = [r.index for r in ranked]
                columns = {"score": [r.score for r in ranked], "text": [texts[i] for i in places]}
                return frame(index[places], columns)
            return [Similar(r.index, r.score, texts[r.index]) for r in ranked]

        if isinstance(query, str):
            return nearest(self._model.embed_one(query, None, prefix, False))
        return [nearest(vector) for vector in self._embed(query, None, prefix, False, None)[0]]

    def index(self, texts, folder, *, numbers="float16", prefix="", windows=False, resume=False, progress=None):
        """Vectors of texts, saved with them in a folder: an Index, to search as often as one likes.

        texts may be more than fit into memory: any iterable. numbers: 'float16', or 'int8' for half the space. resume:
        goes on with what was begun with the same texts and options.
        """
        from .indexing import make

        return make(self, texts, folder, numbers, prefix, windows, resume, progress)

    def encode(
        self,
        sentences,
        prompt_name=None,
        prompt=None,
        batch_size=32,
        show_progress_bar=None,
        output_value="sentence_embedding",
        precision="float32",
        convert_to_numpy=True,
        convert_to_tensor=False,
        device=None,
        normalize_embeddings=False,
        truncate_dim=None,
        pool=None,
        chunk_size=None,
    ):
        """sentence-transformers' encode. batch_size, device, pool and chunk_size change nothing here."""
        if precision != "float32":
            raise ValueError(
                f"precision is 'float32', not {precision!r}; bertie.load(…, precision='int8') is a model's"
            )
        prefix = prompt or ""
        if prompt_name is not None and prompt is None:
            prefix = self._prompt(prompt_name)
        # What is cut gets its length afterwards.
        normalize = True if normalize_embeddings and truncate_dim is None else None
        if output_value == "token_embeddings":
            out = self.token_vectors(sentences, prefix=prefix, progress=show_progress_bar)
        elif output_value == "sentence_embedding":
            if isinstance(sentences, str):
                out = self._model.embed_one(sentences, normalize, prefix, False)
            else:
                out, _ = self._embed(sentences, normalize, prefix, False, show_progress_bar)
            if truncate_dim is not None:
                out = _cut(out, truncate_dim, normalize_embeddings)
        else:
            raise ValueError(f"output_value is 'sentence_embedding' or 'token_embeddings', not {output_value!r}")
        if convert_to_tensor:
            from .tensors import to_torch

            return [to_torch(x) for x in out] if isinstance(out, list) else to_torch(out)
        if convert_to_numpy or isinstance(out, list) or isinstance(sentences, str):
            return out
        return list(out)

    def _prompt(self, name):
        import json

        file = _bertie.read_model_file(self.name, "config_sentence_transformers.json")
        prompts = json.loads(file or b"{}").get("prompts", {})
        if name not in prompts:
            raise ValueError(f"the model has no prompt {name!r}; it has {', '.join(prompts) or 'none'}")
        return prompts[name]

    # Looking inside.

    def attend(self, text, pair=None, *, layers=()):
        """Attention weights of every layer and head, or of these layers (from 0). In a notebook it shows itself."""
        from .seeing import Attention

        return Attention(self._model.attend(text, pair, list(layers)), self.name, text, pair)

    def senses(self, word, texts):
        """A word's vector in each of several texts, layer by layer, and which of its places have one sense."""
        return self._model.senses(word, as_list(texts))

    def tokenize(self, texts, pair=None, *, max_length=None, add_special_tokens=True):
        """Tokens, ids and places of a text or pair, or of many. max_length cuts; None: nothing is cut."""
        tokenizer = self._model.tokenizer
        options = {"max_length": max_length, "add_special_tokens": add_special_tokens}
        if isinstance(texts, str):
            return Tokens(tokenizer.encode(texts, pair, **options), tokenizer)
        pairs = None if pair is None else as_list(pair)
        return [Tokens(e, tokenizer) for e in tokenizer.encode_many(as_list(texts), pairs, **options)]

    # Tasks.

    def fill_mask(self, texts, *, top=5, targets=(), progress=None):
        """The likeliest tokens for every [MASK] (or <mask>)."""
        one, index, results = self._texts("fill_mask", "masked_lm", texts, progress, top, list(targets))
        if one:
            return results
        if index is None:
            return results
        best = [r.masks[0][0] if r.masks and r.masks[0] else None for r in results]
        return frame(index, {f: [b[f] if b else None for b in best] for f in ("token", "score", "sequence")})

    def classify(self, texts, *, apply="by_problem", progress=None):
        """The labels of a text, all of them, best first."""
        one, index, results = self._texts("classify", "classify", texts, progress, apply)
        return results if one or index is None else _label_frame(index, results)

    def pair(self, a, b=None, *, apply="by_problem", progress=None):
        """The labels of a pair of texts; of pairs, or of a list of first texts and one of second ones."""
        one, index, results = self._pairs("classify_pairs", "pair", a, b, progress, apply)
        return results if one or index is None else _label_frame(index, results)

    def next_sentence(self, a, b=None, *, progress=None):
        """How likely b follows a."""
        one, index, results = self._pairs("next_sentence", "next_sentence", a, b, progress)
        return results if one or index is None else frame(index, {"is_next": [r.is_next for r in results]})

    def tag(self, texts, *, aggregation=None, stride=None, keep_outside=False, progress=None):
        """The entities of a text.

        aggregation: 'none', 'simple', 'first', 'average' or 'max', as transformers has them; None: 'first' where the
        model learned labels of words' first pieces alone, as finetune has it, else 'simple'.
        """
        one, index, results = self._texts("tag", "tag", texts, progress, aggregation, stride, keep_outside)
        return results if one or index is None else frame(index, {"entities": [r.entities for r in results]})

    def answer(
        self,
        question,
        context=None,
        *,
        top=1,
        max_answer_tokens=15,
        max_question_tokens=64,
        max_length=None,
        stride=None,
        allow_no_answer=False,
        whole_words=True,
        progress=None,
    ):
        """Where a context answers a question; of several questions with one context or with one each."""
        options = (top, max_answer_tokens, max_question_tokens, max_length, stride, allow_no_answer, whole_words)
        one, index, results = self._pairs("answer", "answer", question, context, progress, *options)
        if one or index is None:
            return results
        return frame(index, {"text": [r.text for r in results], "score": [r.score for r in results]})

    def generate(
        self,
        prompts,
        *,
        max_new_tokens=50,
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        seed=1,
        stop_ids=(),
        on_text=None,
        progress=None,
    ):
        """A text that goes on from a prompt. on_text is told each new piece, and may return False to stop."""
        one = isinstance(prompts, str)
        with Progress(progress, "generate") as told:
            results = self._model.generate(
                [prompts] if one else as_list(prompts),
                max_new_tokens,
                temperature,
                top_k,
                top_p,
                repetition_penalty,
                seed,
                list(stop_ids),
                on_text,
                told,
            )
        index = index_of(prompts)
        if one or index is None:
            return results[0] if one else results
        return frame(index, {f: [r[f] for r in results] for f in ("text", "finish_reason")})

    def score(self, texts, *, progress=None):
        """How likely a text is, token by token."""
        one, index, results = self._texts("score", "score", texts, progress)
        if one or index is None:
            return results
        fields = ("log_probability", "perplexity", "tokens")
        return frame(index, {f: [getattr(r, f) for r in results] for f in fields})

    def _texts(self, task, head, texts, progress, *options):
        """(one or many, pandas' index, results) of a task on texts."""
        call = getattr(self._able(head), task)
        if isinstance(texts, str):
            result = call([texts], *options)[0]
            if task == "fill_mask" and not result.masks:
                from .errors import error

                tokenizer = self._model.tokenizer
                raise error("the text has no mask", f"write {tokenizer.token(tokenizer.mask_id)} where a word is to be")
            return True, None, result
        with Progress(progress, task) as told:
            return False, index_of(texts), call(as_list(texts), *options, told)

    def _pairs(self, task, desc, a, b, progress, *options):
        call = getattr(self._model, task)
        if isinstance(a, str) and isinstance(b, str):
            return True, None, call([(a, b)], *options)[0]
        with Progress(progress, desc) as told:
            return False, index_of(a, b), call(as_pairs(a, b), *options, told)

    # Other handles on the same weights.

    def _with(self, model, **options):
        return TextModel(model, self.name, self._whole_family, {**self._options, **options})

    def with_threads(self, threads):
        """For many callers at once one thread a call is the fastest. 0: one for every core."""
        return self._with(self._model.with_threads(threads), threads=threads)

    def with_max_length(self, tokens):
        return self._with(self._model.with_max_length(tokens), max_length=tokens)

    def with_pooling(self, *kinds, normalize=None):
        """Vectors pooled in another way: 'cls', 'mean', 'max', 'mean_sqrt_length', or several of them."""
        unknown = set(kinds) - set(_POOLINGS)
        if unknown or not kinds:
            named = f"there is no pooling {', '.join(map(repr, sorted(unknown)))}" if unknown else "no pooling is named"
            raise ValueError(f"{named}; there are {', '.join(_POOLINGS)}")
        wanted = dict.fromkeys(kinds, True)
        wanted["normalize"] = self._model.normalizes if normalize is None else normalize
        return self._with(self._model.with_pooling(**wanted), pooling=wanted)

    def without(self, heads):
        """These heads of attention give nothing: pairs of layer and head, from 0."""
        model = self._model.without([tuple(h) for h in heads])
        return self._with(model, heads_off=model.heads_off)

    def can(self, head):
        """Whether the checkpoint has this head: 'masked_lm', 'classify', …"""
        return self._model.can(head)

    tokenizer = property(lambda self: self._model.tokenizer)
    dimension = property(lambda self: self._model.dimension, doc="of a text's vector")
    max_length = property(lambda self: self._model.max_length, doc="tokens of a text that embed reads")
    labels = property(lambda self: self._model.labels)
    parameters = property(lambda self: self._model.parameters)
    threads = property(lambda self: self._model.threads)
    pooling = property(lambda self: self._model.pooling)
    heads_off = property(lambda self: self._model.heads_off)
    precision = property(lambda self: self._model.precision, doc="of the weights: 'fp32', 'bf16' or 'int8'")

    @property
    def config(self):
        """What config.json says."""
        import json

        return json.loads(self._model.config)

    def __repr__(self):
        return f"TextModel({self.name!r}, {self.parameters:,} parameters, {self.dimension} numbers a vector)"

    def __reduce__(self):
        return _again, (self.name, self._whole_family, self._options)


def _load(name, options):
    """The library's model, with all that load and the handles made from it were asked for."""
    model = _bertie.TextModel.load(
        name, options["threads"], options["max_length"], options["strict"], options["precision"]
    )
    if options["pooling"]:
        model = model.with_pooling(**options["pooling"])
    return model.without(options["heads_off"]) if options["heads_off"] else model


def _again(name, whole_family, options):
    """A TextModel that was pickled: its files are read again where they were."""
    return TextModel(_load(name, options), name, whole_family, options)


def _cut(vectors, dimension, normalize):
    """The first numbers of each vector, as models that were trained for it have them (Matryoshka)."""
    import numpy

    vectors = numpy.ascontiguousarray(vectors[..., :dimension])
    if normalize:
        vectors /= numpy.maximum(numpy.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return vectors


def _label_frame(index, results):
    """A row for each text: the best label, and every label's score."""
    labels = sorted({s.label for r in results for s in r.labels})
    scores = [{s.label: s.score for s in r.labels} for r in results]
    columns = {"label": [r.label for r in results]}
    columns.update({label: [s.get(label) for s in scores] for label in labels})
    return frame(index, columns)


def load(model=None, *, threads=0, max_length=0, precision="fp32", strict=False, warning=None):
    """A model by its name, from a folder, or, without either, the one that is part of Bertie.

    threads: that a call works with, 0: one for every core. max_length: tokens of a text, 0: as the model's files say.
    precision: 'fp32', 'bf16' for half the memory, or 'int8' for a quarter of it, and faster. warning: told what is odd
    but does no harm; with strict it is an Error. A name is looked for in the hub's cache; bertie.pull(name) brings it there.
    """
    name = EMBEDDED if model is None else str(model)
    loaded = _bertie.TextModel.load(name, threads, max_length, strict, precision, warning)
    options = {"threads": threads, "max_length": max_length, "precision": precision, "strict": strict}
    return TextModel(loaded, name, model is None, options)


def pull(name, *, progress=None):
    """Downloads a model from the hub into the cache that Python's huggingface_hub uses too; its folder."""
    with Progress(progress, name) as told:
        return _bertie.pull(name, told)


def quantize(model, to, texts=(), *, force=False):
    """Writes a model in 8-bit integers into the folder `to`: a quarter of the size, and faster (docs/quantizing.md).

    texts: some fifty like those that it will read. The result, a Quantized, says what was lost.
    """
    name = EMBEDDED if model is None else model.name if isinstance(model, TextModel) else str(model)
    return _bertie.quantize(name, str(to), as_list(texts), force)


def info(model=None):
    """What a model is, by its files: a dict of its shape, heads, tokenizer and sizes."""
    import json

    return json.loads(_bertie.describe(EMBEDDED if model is None else str(model)))


def models():
    """The models in the hub's cache, a dict for each; and the names of those that are part of Bertie."""
    import json

    return [json.loads(one) for one in _bertie.cached_models()], _bertie.embedded_models()
