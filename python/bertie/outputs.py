"""What a model gives: a dict whose entries are attributes and, like transformers', can be counted."""

from __future__ import annotations


class ModelOutput(dict):
    """outputs.attentions, outputs["attentions"], outputs[0], and `hidden, pooled = outputs.to_tuple()`."""

    def __getattr__(self, name):
        try:
            return super().__getitem__(name)
        except KeyError:
            if name.startswith("_"):
                raise AttributeError(name) from None
            return None  # what was not asked for

    def __setattr__(self, name, value):
        self[name] = value

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self):
        return tuple(self.values())


def loss_of(logits, labels, regression=False):
    """The mean cross-entropy over the labels that are not -100; of a regression, the mean square."""
    import numpy

    if regression:
        return numpy.float32(numpy.mean((logits.reshape(-1) - labels.reshape(-1)) ** 2))
    logits = logits.reshape(-1, logits.shape[-1]).astype("float64")
    labels = labels.reshape(-1)
    kept = labels != -100
    logits, labels = logits[kept], labels[kept]
    highest = logits.max(axis=1)
    log_sums = highest + numpy.log(numpy.exp(logits - highest[:, None]).sum(axis=1))
    return numpy.float32((log_sums - logits[numpy.arange(len(labels)), labels]).mean())
