from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal, Optional, Union, overload

from numpy.typing import ArrayLike

from .text_model import Progress, Similar, TextModel

Folder = Union[str, PathLike[str]]

def make(
    model: TextModel,
    texts: Iterable[str],
    folder: Folder,
    numbers: Literal["float16", "int8"],
    prefix: str,
    windows: bool,
    resume: bool,
    progress: Progress,
) -> Index: ...

class Index:
    folder: str
    def __init__(self, folder: Folder, model: Any = None, *, threads: int = 0) -> None: ...
    @property
    def model(self) -> TextModel: ...
    @overload
    def search(self, query: str, top: int = 10, *, prefix: str = "") -> list[Similar]: ...
    @overload
    def search(
        self, query: Union[list[str], tuple[str, ...]], top: int = 10, *, prefix: str = ""
    ) -> list[list[Similar]]: ...
    @overload
    def search(self, query: Union[ArrayLike, Iterable[str]], top: int = 10, *, prefix: str = "") -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def numbers(self) -> Literal["float16", "int8"]: ...
    @property
    def pooling(self) -> str: ...
    @property
    def how(self) -> str: ...
