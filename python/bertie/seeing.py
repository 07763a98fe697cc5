"""Attention that shows itself."""

from __future__ import annotations

import html


class Attention:
    """Attention weights of a text or pair: who looks at whom.

    weights is (kept layers, heads, tokens, tokens): rows look, columns are looked at. It is a view of what the
    library computed, not a copy.
    """

    def __init__(self, attention, model, text, pair):
        self._attention, self.model, self.text, self.pair = attention, model, text, pair
        self._page = None

    tokens = property(lambda self: self._attention.tokens)
    weights = property(lambda self: self._attention.weights)
    layers = property(lambda self: self._attention.layers, doc="of the model")
    heads = property(lambda self: self._attention.heads, doc="of a layer")
    kept = property(lambda self: self._attention.kept, doc="layers whose weights are here, from 0")
    encoding = property(lambda self: self._attention.encoding)

    def at(self, layer, head):
        """The weights of a head, (tokens, tokens); both are counted from 0."""
        return self._attention.at(layer, head)

    def summary(self, layer, head):
        """What a head does, in numbers: entropy, distance, and shares of the attention that it gives."""
        return self._attention.summary(layer, head)

    def rollout(self, layers=0):
        """How much of each token is in each other one after so many layers (0: all), as far as attention says."""
        return self._attention.rollout(layers)

    def svg(self, layer=None, head=None):
        """A picture of all heads, of a layer's, or of one, as text of an SVG file."""
        return self._attention.svg(layer, head)

    def png(self, layer=None, head=None):
        """The same as bytes of a PNG file."""
        return self._attention.png(layer, head)

    def html(self):
        """A page with these weights in it, to look at every head. It asks for nothing over any network."""
        if self._page is None:
            self._page = self._attention.html(self.model, self.text, self.pair)
        return self._page

    def _repr_html_(self):
        page = html.escape(self.html())
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0" title="attention"></iframe>'

    def __len__(self):
        return len(self._attention)

    def __repr__(self):
        return repr(self._attention)
