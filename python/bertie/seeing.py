"""Attention that shows itself."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from . import _bertie


class Attention:
    """Attention weights of a text or pair: who looks at whom.

    weights is (kept layers, heads, tokens, tokens): rows look, columns are looked at. It is a view of what the
    library computed, not a copy.
    """

    def __init__(self, attention: _bertie.Attention, model: str, text: str, pair: Optional[str]):
        self._attention, self.model, self.text, self.pair = attention, model, text, pair
        self._page: Optional[str] = None

    @property
    def tokens(self) -> list[str]:
        return self._attention.tokens

    @property
    def weights(self) -> NDArray:
        return self._attention.weights

    @property
    def layers(self) -> int:
        """Of the model."""
        return self._attention.layers

    @property
    def heads(self) -> int:
        """Of a layer."""
        return self._attention.heads

    @property
    def kept(self) -> list[int]:
        """Layers whose weights are here, from 0."""
        return self._attention.kept

    @property
    def encoding(self) -> _bertie.Encoding:
        return self._attention.encoding

    def at(self, layer: int, head: int) -> NDArray:
        """The weights of a head, (tokens, tokens); both are counted from 0."""
        return self._attention.at(layer, head)

    def summary(self, layer: int, head: int) -> _bertie.HeadSummary:
        """What a head does, in numbers: entropy, distance, and shares of the attention that it gives."""
        return self._attention.summary(layer, head)

    def rollout(self, layers: int = 0) -> NDArray:
        """How much of each token is in each other one after so many layers (0: all), as far as attention says."""
        return self._attention.rollout(layers)

    def svg(self, layer: Optional[int] = None, head: Optional[int] = None) -> str:
        """A picture of all heads, of a layer's, or of one, as text of an SVG file."""
        return self._attention.svg(layer, head)

    def png(self, layer: Optional[int] = None, head: Optional[int] = None) -> bytes:
        """The same as bytes of a PNG file."""
        return self._attention.png(layer, head)

    def html(self) -> str:
        """A page with these weights in it, to look at every head. It asks for nothing over any network."""
        if self._page is None:
            self._page = self._attention.html(self.model, self.text, self.pair)
        return self._page

    def _repr_html_(self) -> str:
        page = html.escape(self.html())
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0" title="attention"></iframe>'

    def __len__(self):
        return len(self._attention)

    def __repr__(self):
        return repr(self._attention)
