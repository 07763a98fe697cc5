from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, Literal, NamedTuple, Optional, Union, overload

import numpy as np
from numpy.typing import NDArray

from ._bertie import (
    Answering,
    Classification,
    Encoding,
    Generation,
    MaskFilling,
    NextSentence,
    Quantized,
    Senses,
    Tagging,
    TextScore,
    Tokenizer,
)
from ._bertie import EmbeddedRow as EmbeddedRow
from .indexing import Index
from .seeing import Attention

EMBEDDED: str
Vectors = NDArray[np.float32]
# None, True, a class like tqdm's, a bar of such a class, or a function of (done, total).
Progress = Union[None, bool, type, Callable[[int, int], object], Any]
Many = Union[list[str], tuple[str, ...]]
Head = Literal["masked_lm", "next_sentence", "classify", "tag", "answer", "causal_lm"]
Apply = Literal["by_problem", "softmax", "sigmoid", "nothing"]

class Similar(NamedTuple):
    index: int  # type: ignore[assignment]
    score: float
    text: str

class Tokens:
    encoding: Encoding
    tokens: list[str]
    @property
    def ids(self) -> list[int]: ...
    @property
    def types(self) -> list[int]: ...
    @property
    def offsets(self) -> list[tuple[int, int]]: ...
    @property
    def words(self) -> list[int]: ...
    @property
    def sequences(self) -> list[int]: ...
    @property
    def truncated(self) -> bool: ...
    def __init__(self, encoding: Encoding, tokenizer: Tokenizer) -> None: ...
    def keys(self) -> tuple[str, ...]: ...
    def __getitem__(self, field: str) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...

# Many texts give a list; a column of pandas' gives a DataFrame, which is why the results of many are Any.
class TextModel:
    name: str
    def __init__(
        self, model: Any, name: str, whole_family: bool = False, options: Optional[dict[str, Any]] = None
    ) -> None: ...
    @overload
    def embed(
        self,
        texts: str,
        *,
        normalize: Optional[bool] = None,
        prefix: str = "",
        windows: bool = False,
        progress: Progress = None,
    ) -> Vectors: ...
    @overload
    def embed(
        self,
        texts: Many,
        *,
        normalize: Optional[bool] = None,
        prefix: str = "",
        windows: bool = False,
        progress: Progress = None,
    ) -> Vectors: ...
    @overload
    def embed(
        self,
        texts: Any,
        *,
        normalize: Optional[bool] = None,
        prefix: str = "",
        windows: bool = False,
        progress: Progress = None,
    ) -> Any: ...
    def embed_with_rows(
        self,
        texts: Iterable[str],
        *,
        normalize: Optional[bool] = None,
        prefix: str = "",
        windows: bool = False,
        progress: Progress = None,
    ) -> tuple[Vectors, list[EmbeddedRow]]: ...
    @overload
    def token_vectors(self, texts: str, *, prefix: str = "", progress: Progress = None) -> Vectors: ...
    @overload
    def token_vectors(self, texts: Many, *, prefix: str = "", progress: Progress = None) -> list[Vectors]: ...
    @overload
    def similar(
        self, query: str, texts: Many, *, top: int = 10, prefix: str = "", progress: Progress = None
    ) -> list[Similar]: ...
    @overload
    def similar(
        self, query: Many, texts: None = None, *, top: int = 10, prefix: str = "", progress: Progress = None
    ) -> Vectors: ...
    @overload
    def similar(self, query: Any, texts: Any, *, top: int = 10, prefix: str = "", progress: Progress = None) -> Any: ...
    def index(
        self,
        texts: Iterable[str],
        folder: Union[str, PathLike[str]],
        *,
        numbers: Literal["float16", "int8"] = "float16",
        prefix: str = "",
        windows: bool = False,
        resume: bool = False,
        progress: Progress = None,
    ) -> Index: ...
    def encode(
        self,
        sentences: Union[str, Iterable[str]],
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Progress = None,
        output_value: Optional[str] = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: Optional[int] = None,
        pool: Any = None,
        chunk_size: Optional[int] = None,
    ) -> Any: ...
    def attend(self, text: str, pair: Optional[str] = None, *, layers: Iterable[int] = ()) -> Attention: ...
    def senses(self, word: str, texts: Iterable[str]) -> Senses: ...
    @overload
    def tokenize(
        self,
        texts: str,
        pair: Optional[str] = None,
        *,
        max_length: Optional[int] = None,
        add_special_tokens: bool = True,
    ) -> Tokens: ...
    @overload
    def tokenize(
        self,
        texts: Many,
        pair: Optional[Iterable[str]] = None,
        *,
        max_length: Optional[int] = None,
        add_special_tokens: bool = True,
    ) -> list[Tokens]: ...
    @overload
    def fill_mask(
        self, texts: str, *, top: int = 5, targets: Iterable[str] = (), progress: Progress = None
    ) -> MaskFilling: ...
    @overload
    def fill_mask(
        self, texts: Many, *, top: int = 5, targets: Iterable[str] = (), progress: Progress = None
    ) -> list[MaskFilling]: ...
    @overload
    def fill_mask(self, texts: Any, *, top: int = 5, targets: Iterable[str] = (), progress: Progress = None) -> Any: ...
    @overload
    def classify(self, texts: str, *, apply: Apply = "by_problem", progress: Progress = None) -> Classification: ...
    @overload
    def classify(
        self, texts: Many, *, apply: Apply = "by_problem", progress: Progress = None
    ) -> list[Classification]: ...
    @overload
    def classify(self, texts: Any, *, apply: Apply = "by_problem", progress: Progress = None) -> Any: ...
    @overload
    def pair(self, a: str, b: str, *, apply: Apply = "by_problem", progress: Progress = None) -> Classification: ...
    @overload
    def pair(self, a: Any, b: Any = None, *, apply: Apply = "by_problem", progress: Progress = None) -> Any: ...
    @overload
    def next_sentence(self, a: str, b: str, *, progress: Progress = None) -> NextSentence: ...
    @overload
    def next_sentence(self, a: Any, b: Any = None, *, progress: Progress = None) -> Any: ...
    @overload
    def tag(
        self,
        texts: str,
        *,
        aggregation: Optional[Literal["none", "simple", "first", "average", "max"]] = None,
        stride: Optional[int] = None,
        keep_outside: bool = False,
        progress: Progress = None,
    ) -> Tagging: ...
    @overload
    def tag(
        self,
        texts: Any,
        *,
        aggregation: Optional[Literal["none", "simple", "first", "average", "max"]] = None,
        stride: Optional[int] = None,
        keep_outside: bool = False,
        progress: Progress = None,
    ) -> Any: ...
    @overload
    def answer(
        self,
        question: str,
        context: str,
        *,
        top: int = 1,
        max_answer_tokens: int = 15,
        max_question_tokens: int = 64,
        max_length: Optional[int] = None,
        stride: Optional[int] = None,
        allow_no_answer: bool = False,
        whole_words: bool = True,
        progress: Progress = None,
    ) -> Answering: ...
    @overload
    def answer(
        self,
        question: Any,
        context: Any = None,
        *,
        top: int = 1,
        max_answer_tokens: int = 15,
        max_question_tokens: int = 64,
        max_length: Optional[int] = None,
        stride: Optional[int] = None,
        allow_no_answer: bool = False,
        whole_words: bool = True,
        progress: Progress = None,
    ) -> Any: ...
    @overload
    def generate(
        self,
        prompts: str,
        *,
        max_new_tokens: int = 50,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 1,
        stop_ids: Iterable[int] = (),
        on_text: Optional[Callable[[str], Optional[bool]]] = None,
        progress: Progress = None,
    ) -> Generation: ...
    @overload
    def generate(
        self,
        prompts: Any,
        *,
        max_new_tokens: int = 50,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 1,
        stop_ids: Iterable[int] = (),
        on_text: Optional[Callable[[str], Optional[bool]]] = None,
        progress: Progress = None,
    ) -> Any: ...
    @overload
    def score(self, texts: str, *, progress: Progress = None) -> TextScore: ...
    @overload
    def score(self, texts: Many, *, progress: Progress = None) -> list[TextScore]: ...
    @overload
    def score(self, texts: Any, *, progress: Progress = None) -> Any: ...
    def with_threads(self, threads: int) -> TextModel: ...
    def with_max_length(self, tokens: int) -> TextModel: ...
    def with_pooling(
        self, *kinds: Literal["cls", "mean", "max", "mean_sqrt_length"], normalize: Optional[bool] = None
    ) -> TextModel: ...
    def without(self, heads: Iterable[tuple[int, int]]) -> TextModel: ...
    def can(self, head: Head) -> bool: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def dimension(self) -> int: ...
    @property
    def max_length(self) -> int: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def parameters(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def pooling(self) -> str: ...
    @property
    def precision(self) -> Literal["fp32", "bf16", "int8"]: ...
    @property
    def heads_off(self) -> list[tuple[int, int]]: ...
    @property
    def config(self) -> dict[str, Any]: ...

def load(
    model: Any = None,
    *,
    threads: int = 0,
    max_length: int = 0,
    precision: Literal["fp32", "bf16", "int8"] = "fp32",
    strict: bool = False,
    warning: Optional[Callable[[str], object]] = None,
) -> TextModel: ...
def pull(name: str, *, progress: Progress = None) -> str: ...
def quantize(
    model: Any, to: Union[str, PathLike[str]], texts: Iterable[str] = (), *, force: bool = False
) -> Quantized: ...
def info(model: Any = None) -> dict[str, Any]: ...
def models() -> tuple[list[dict[str, Any]], list[str]]: ...
