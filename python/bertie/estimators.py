"""scikit-learn's conventions: estimators that learn from texts, and vectors for a Pipeline.

    BertClassifier().fit(texts, labels).predict(more)
    make_pipeline(BertVectors("all-MiniLM-L6-v2"), LogisticRegression())

X is a list, an array or a column of texts; for BertClassifier and BertRegressor also of pairs of texts, for BertTagger of
lists of words. What was learned is kept as the bytes of the model's files, so that an estimator can be pickled.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, Optional

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import _bertie
from .text_model import EMBEDDED, TextModel, load
from .training import finetune

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


def _texts(X):
    """A list of texts, of what scikit-learn passes around; a table must have one column."""
    if isinstance(X, str):
        raise ValueError("X is one text; it takes a list of texts")
    if hasattr(X, "iloc") and getattr(X, "ndim", 1) == 2:  # a DataFrame
        X = X.to_numpy()
    if hasattr(X, "toarray"):
        raise TypeError("X is a sparse matrix of numbers; it takes texts")
    if isinstance(X, numpy.ndarray):
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        elif X.ndim == 2 and X.shape[1] == 2:
            X = [tuple(row) for row in X]
        elif X.ndim != 1:
            raise ValueError(f"X has the shape {X.shape}; it takes texts, (n,) or (n, 1), or pairs of them, (n, 2)")
    X = X.tolist() if hasattr(X, "tolist") else list(X)
    if not X:
        raise ValueError("Found array with 0 sample(s): there are no texts to learn from or to predict")
    return X


def _is_pairs(X):
    return not isinstance(X[0], str) and len(X[0]) == 2 and isinstance(X[0][0], str)


def _check_texts(X):
    for i, x in enumerate(X):
        parts = x if isinstance(x, (tuple, list)) else (x,)
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(f"X[{i}] is {type(x).__name__}, not a text")


class _Learned:
    """A model that was fine-tuned, as bytes; loaded when it is first used, also after unpickling."""

    def __init__(self, folder):
        self._files = {}
        for name in _bertie.model_files(folder):
            if "/" not in name and name not in ("README.md", "metrics.json"):
                self._files[name] = _bertie.read_model_file(folder, name)
        self._model = self._folder = None

    def model(self, threads):
        if self._model is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bertie-")
            for name, content in self._files.items():
                with open(os.path.join(self._folder.name, name), "wb") as file:
                    file.write(content)
            self._model = load(self._folder.name, threads=threads)
        return self._model

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        for name, content in self._files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)

    def __getstate__(self):
        return {"_files": self._files, "_model": None, "_folder": None}


class _Tuned(BaseEstimator):
    """What the three that learn have in common. 0 and None are Bertie's own defaults, which go by the rows.

    model: what learning begins with, None: the model in the box. dev_share: of the rows, taken out to choose the best
    checkpoint by; 0: none, and the last one counts. on_step: told a TrainProgress after each step.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        epochs: float = 0,
        batch: int = 0,
        rate: float = 0,
        steps: int = 0,
        warmup: float = 0.1,
        decay: float = 0.01,
        dropout: float = -1,
        freeze: Optional[int] = None,
        layer_decay: float = 1,
        max_length: int = 0,
        dev_share: float = 0,
        seed: int = 1,
        threads: int = 0,
        on_step: Any = None,
        progress: Any = None,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.steps = steps
        self.warmup = warmup
        self.decay = decay
        self.dropout = dropout
        self.freeze = freeze
        self.layer_decay = layer_decay
        self.max_length = max_length
        self.dev_share = dev_share
        self.seed = seed
        self.threads = threads
        self.on_step = on_step
        self.progress = progress

    def _options(self):
        own = ("epochs", "batch", "rate", "steps", "warmup", "decay", "dropout", "freeze", "layer_decay")
        more = ("max_length", "dev_share", "seed", "threads")
        return {name: getattr(self, name) for name in own + more}

    def _learn(self, task, rows, **options):
        tuned = finetune(
            task,
            rows,
            model=self.model,
            progress=self.progress,
            on_step=self.on_step,
            **{**self._options(), **options},
        )
        self._learned = _Learned(tuned.folder)
        self.dev_scores_ = tuned.scores
        self.n_features_in_ = 1
        return self

    def _fitted(self):
        check_is_fitted(self, "_learned")
        return self._learned.model(self.threads)

    @property
    def text_model_(self) -> TextModel:
        """What was learned, as bertie.load gives it."""
        return self._fitted()

    def save(self, folder: Any) -> None:
        """What was learned as a folder, for bertie.load and transformers."""
        check_is_fitted(self, "_learned")
        self._learned.save(folder)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.target_tags.required = True
        tags.no_validation = True
        return tags

    def _more_tags(self):  # before scikit-learn 1.6
        return {"X_types": ["string"], "requires_y": True, "no_validation": True}


def _checked(X, y):
    X = _texts(X)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = numpy.asarray(y)
    if len(y) != len(X):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[len(X), len(y)]}")
    return X, y


class BertClassifier(ClassifierMixin, _Tuned):
    __doc__ = "Texts or pairs of texts to classes.\n\n" + str(_Tuned.__doc__)

    def fit(self, X: Any, y: Any) -> Self:
        X, y = _checked(X, y)
        _check_texts(X)
        check_classification_targets(y)
        self.classes_, places = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("there is one class only: a classifier needs at least two")
        pairs = _is_pairs(X)
        # Classes are called by their places, so that any labels that NumPy can sort may be learned.
        labels = [f"class-{i:06d}" for i in places]
        rows = [(*x, label) if pairs else (x, label) for x, label in zip(X, labels)]
        return self._learn("pair" if pairs else "classify", rows, problem="single_label")

    def predict_proba(self, X: Any) -> NDArray:
        """(texts, classes), in the order of classes_."""
        model = self._fitted()
        X = _texts(X)
        _check_texts(X)
        found = model.pair(X) if _is_pairs(X) else model.classify(X)
        out = numpy.zeros((len(X), len(self.classes_)), "float32")
        for row, result in zip(out, found):
            for scored in result.labels:
                row[int(scored.label[len("class-") :])] = scored.score
        return out

    def predict(self, X: Any) -> NDArray:
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


class BertRegressor(RegressorMixin, _Tuned):
    __doc__ = "Texts or pairs of texts to numbers.\n\n" + str(_Tuned.__doc__)

    def fit(self, X: Any, y: Any) -> Self:
        X, y = _checked(X, y)
        _check_texts(X)
        y = y.astype("float64")
        if not numpy.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity")
        if y.min() == y.max():
            raise ValueError(f"y is one number for all of n_samples = {len(y)}: there is nothing to learn")
        # A network learns numbers of about 1: what y is measured in is put aside.
        self._middle, self._spread = float(y.mean()), float(y.std())
        scaled = (y - self._middle) / self._spread
        pairs = _is_pairs(X)
        rows = [(*x, value) if pairs else (x, value) for x, value in zip(X, scaled.tolist())]
        return self._learn("pair" if pairs else "classify", rows, problem="regression")

    def predict(self, X: Any) -> NDArray:
        model = self._fitted()
        X = _texts(X)
        _check_texts(X)
        found = model.pair(X) if _is_pairs(X) else model.classify(X)
        return numpy.array([r.score for r in found], "float64") * self._spread + self._middle


class BertTagger(_Tuned):
    __doc__ = "Lists of words to lists of tags; score is the share of words that are right.\n\n" + str(_Tuned.__doc__)

    def fit(self, X: Any, y: Any) -> Self:
        X = [list(words) for words in X]
        y = [[str(tag) for tag in tags] for tags in y]
        if len(X) != len(y) or any(len(words) != len(tags) for words, tags in zip(X, y)):
            raise ValueError("there is not a tag for every word")
        if not X:
            raise ValueError("Found array with 0 sample(s)")
        self.classes_ = numpy.unique([tag for tags in y for tag in tags])
        return self._learn("tag", list(zip(X, y)))

    def predict(self, X: Any) -> list[list[str]]:
        """A tag for each word: that of its first token."""
        model = self._fitted()
        X = [[str(word) for word in words] for words in X]
        found = model.tag([" ".join(words) for words in X], aggregation="none", keep_outside=True)
        outside = "O" if "O" in self.classes_ else str(self.classes_[0])
        out = []
        for words, tagging in zip(X, found):
            at, starts = 0, {}
            for i, word in enumerate(words):
                starts[at] = i
                at += len(word) + 1
            tags = [outside] * len(words)
            for entity in reversed(tagging.entities):
                place = starts.get(entity.offset[0])
                if place is not None:
                    tags[place] = entity.label
            out.append(tags)
        return out

    def score(self, X: Any, y: Any) -> float:
        right = [a == str(b) for tags, true in zip(self.predict(X), y) for a, b in zip(tags, true)]
        return float(numpy.mean(right))


class BertVectors(TransformerMixin, BaseEstimator):
    """Texts to vectors: a transformer for a Pipeline. There is nothing to learn; fit loads the model."""

    def __init__(
        self,
        model: Any = None,
        *,
        normalize: Optional[bool] = None,
        prefix: str = "",
        windows: bool = False,
        threads: int = 0,
        progress: Any = None,
    ) -> None:
        self.model = model
        self.normalize = normalize
        self.prefix = prefix
        self.windows = windows
        self.threads = threads
        self.progress = progress

    def fit(self, X: Any = None, y: Any = None) -> Self:
        self._loaded = None
        self.n_features_out_ = self._text_model().dimension
        self.n_features_in_ = 1
        return self

    def _text_model(self):
        if getattr(self, "_loaded", None) is None:
            self._loaded = load(EMBEDDED if self.model is None else self.model, threads=self.threads)
        return self._loaded

    def transform(self, X: Any) -> NDArray:
        check_is_fitted(self, "n_features_out_")
        X = _texts(X)
        _check_texts(X)
        options = {"normalize": self.normalize, "prefix": self.prefix, "windows": self.windows}
        return self._text_model().embed(X, progress=self.progress, **options)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        check_is_fitted(self, "n_features_out_")
        return numpy.array([f"bert{i}" for i in range(self.n_features_out_)], dtype=object)

    def __getstate__(self):
        return {**self.__dict__, "_loaded": None}

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_out_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.no_validation = True
        tags.transformer_tags.preserves_dtype = []  # vectors are float32
        return tags

    def _more_tags(self):  # before scikit-learn 1.6
        return {"X_types": ["string"], "no_validation": True}
