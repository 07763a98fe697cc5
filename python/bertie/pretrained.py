"""Models as transformers has them: BertModel.from_pretrained(…), model(**inputs, output_attentions=True).

Batches are unpadded on the way in: what attention_mask leaves out is not computed, and is zero in what comes back.
torch's tensors give torch's tensors, NumPy's arrays NumPy's; torch is never needed.
"""

from __future__ import annotations

import json

from . import _bertie
from .checkpoints import resolve
from .errors import error
from .outputs import ModelOutput, loss_of
from .tensors import is_torch, to_numpy, to_torch

_FAMILIES = {
    "Bert": "bert",
    "DistilBert": "distilbert",
    "Roberta": "roberta",
    "XLMRoberta": "xlm-roberta",
    "Camembert": "camembert",
    "Albert": "albert",
    "GPT2": "gpt2",
}
# The head of each kind of class.
_HEADS = {
    "Model": None,
    "ForMaskedLM": "masked_lm",
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "answer",
    "ForNextSentencePrediction": "next_sentence",
    "ForPreTraining": "masked_lm",
    "ForCausalLM": "causal_lm",
}
_NAMES = {  # of classes that are called otherwise
    ("GPT2", "ForCausalLM"): "GPT2LMHeadModel",
}


class Config:
    """A model's config.json, its keys as attributes."""

    def __init__(self, values):
        self.__dict__.update(values)
        if "id2label" in values:
            self.id2label = {int(k): v for k, v in values["id2label"].items()}
            self.label2id = {v: k for k, v in self.id2label.items()}
        self.output_attentions = self.output_hidden_states = False
        self.use_return_dict = True

    @property
    def num_labels(self):
        return len(getattr(self, "id2label", {0: 0, 1: 1}))

    def to_dict(self):
        return dict(self.__dict__)

    def __repr__(self):
        return f"Config({self.__dict__!r})"


class PreTrainedModel:
    """A model by transformers' names. It is constant, and any number of threads may call it."""

    family = None  # the model_type that a class is for; None: any
    head = None
    training = False

    def __init__(self, network, name):
        self._network, self.name_or_path = network, name
        self.config = Config(json.loads(network.config))

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path=None,
        *_,
        output_attentions=False,
        output_hidden_states=False,
        dtype=None,
        torch_dtype=None,
        revision=None,
        local_files_only=False,
        threads=0,
        **__,
    ):
        """By a name, from a folder, or, without either, the model in the box.

        dtype bfloat16 holds the layers' weights in half the memory. What has no meaning here (device_map,
        attn_implementation …) changes nothing.
        """
        files = resolve(pretrained_model_name_or_path, revision=revision, local_files_only=local_files_only)
        precision = "bf16" if str(dtype or torch_dtype).endswith("bfloat16") else "fp32"
        model = cls(_bertie.Network.load(files, threads, precision), files)
        model._check()
        model.config.output_attentions = bool(output_attentions)
        model.config.output_hidden_states = bool(output_hidden_states)
        return model

    def _check(self):
        found = self.config.model_type
        if self.family not in (None, found):
            raise error(f"{self.name_or_path} is of the family {found}", "AutoModel…, or the family's own classes")
        if self.head and not self._network.has(self.head):
            there = [h for h in dict.fromkeys(_HEADS.values()) if h and self._network.has(h)]
            raise error(
                f"{self.name_or_path} has no head for {type(self).__name__}; it has {', '.join(there) or 'none'}",
                "bertie.finetune makes a model with one",
            )

    def __call__(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        position_ids=None,
        head_mask=None,
        inputs_embeds=None,
        labels=None,
        output_attentions=None,
        output_hidden_states=None,
        return_dict=None,
        **_,
    ):
        if input_ids is None or inputs_embeds is not None:
            raise error("a model reads `input_ids`", field="input_ids")
        as_torch = is_torch(input_ids)
        ids = to_numpy(input_ids, "int64")
        mask = None if attention_mask is None else to_numpy(attention_mask, "int64")
        types = None if token_type_ids is None else to_numpy(token_type_ids, "int64")
        _check_positions(position_ids, ids.shape, mask)
        given = {
            "ids": ids,
            "mask": mask,
            "types": types,
            "attentions": self._wanted(output_attentions, "output_attentions"),
            "hidden_states": self._wanted(output_hidden_states, "output_hidden_states"),
            "heads_off": _heads_off(head_mask, self.config),
        }
        out = self._outputs(given)
        if labels is not None:
            out = {"loss": self._loss(out, to_numpy(labels)), **out}
        if as_torch:
            out = {name: _as_torch(value) for name, value in out.items()}
        output = ModelOutput(out)
        return output.to_tuple() if return_dict is False else output

    forward = __call__

    def _wanted(self, asked, name):
        return bool(getattr(self.config, name) if asked is None else asked)

    def _outputs(self, given):
        """Entries in transformers' order."""
        found = self._network.forward(head=self.head, last_hidden=self.head is None, **given)
        if self.head == "answer":
            logits = found.pop("logits")
            found = {"start_logits": logits[..., 0].copy(), "end_logits": logits[..., 1].copy(), **found}
        return found

    def _loss(self, out, labels):
        if self.head in (None, "answer"):
            raise error(f"{type(self).__name__} has no loss by `labels`; bertie.finetune learns")
        logits = out["logits"]
        if self.head == "causal_lm":
            logits, labels = logits[:, :-1], labels[:, 1:]
        return loss_of(logits, labels, self.head == "classify" and logits.shape[-1] == 1)

    # What scripts call, and what changes nothing here.

    def eval(self):
        return self

    def train(self, mode=True):
        if mode:
            raise error("a model does not learn by itself; bertie.finetune and bertie.pretrain do")
        return self

    def to(self, *_, **__):
        return self

    cpu = cuda = float = half = bfloat16 = requires_grad_ = to

    @property
    def device(self):
        try:
            import torch
        except ImportError:
            return "cpu"
        return torch.device("cpu")

    def num_parameters(self, **_):
        return self._network.parameters

    def save_pretrained(self, save_directory, **_):
        """config.json and model.safetensors, for Bertie and transformers."""
        self._network.save(save_directory)

    def __repr__(self):
        return f"{type(self).__name__}({self.name_or_path!r}, {self.num_parameters():,} parameters)"

    def __reduce__(self):
        return _again, (type(self), self.name_or_path, self.config.output_attentions, self.config.output_hidden_states)


class _ForPreTraining(PreTrainedModel):
    """Both heads of pre-training: masked tokens, and next sentences (or, for ALBERT, their order)."""

    def _check(self):
        super()._check()
        if not self._network.has("next_sentence"):
            raise error(f"{self.name_or_path} has no head for next sentences")

    def _outputs(self, given):
        found = self._network.forward(head="masked_lm", last_hidden=False, **given)
        alone = {**given, "attentions": False, "hidden_states": False}
        pairs = self._network.forward(head="next_sentence", last_hidden=False, **alone)["logits"]
        name = "sop_logits" if self.config.model_type == "albert" else "seq_relationship_logits"
        return {"prediction_logits": found.pop("logits"), name: pairs, **found}

    def _loss(self, out, labels):
        return loss_of(out["prediction_logits"], labels)


class _ForCausalLM(PreTrainedModel):
    """A model that goes on with a text."""

    def generate(
        self,
        input_ids,
        attention_mask=None,
        max_new_tokens=None,
        max_length=None,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=None,
        **_,
    ):
        """The likeliest next tokens, one after the other, behind the ids that were given.

        Rows that end earlier are padded. To draw instead, bertie.load(…).generate has temperature, top_k and top_p.
        """
        if do_sample:
            raise error("`do_sample` is not for ids", "bertie.load(…).generate(text, temperature=…) draws")
        ids = to_numpy(input_ids, "int64")
        mask = None if attention_mask is None else to_numpy(attention_mask, "int64")
        if max_new_tokens is None:
            max_new_tokens = 20 if max_length is None else max(max_length - ids.shape[1], 0)
        eos = getattr(self.config, "eos_token_id", None) if eos_token_id is None else eos_token_id
        eos = -1 if eos is None else eos
        pad = eos if pad_token_id is None else pad_token_id
        made = self._network.generate(ids, mask, max_new_tokens, eos, max(pad, 0))
        return to_torch(made) if is_torch(input_ids) else made


def _again(cls, name, output_attentions, output_hidden_states):
    return cls.from_pretrained(name, output_attentions=output_attentions, output_hidden_states=output_hidden_states)


def _as_torch(value):
    if isinstance(value, tuple):
        return tuple(to_torch(v) for v in value)
    if value.shape == ():
        import torch

        return torch.tensor(float(value))
    return to_torch(value)


def _check_positions(position_ids, shape, mask):
    """Tokens are counted from the first one that the mask shows; others' ideas are an Error."""
    if position_ids is None:
        return
    import numpy

    given = numpy.broadcast_to(to_numpy(position_ids, "int64"), shape)
    mask = numpy.ones(shape, "int64") if mask is None else mask
    counted = numpy.cumsum(mask, axis=1) - 1
    if ((given != counted) & (mask != 0)).any():
        raise error("`position_ids` are other than 0, 1, 2 …, which Bertie cannot compute with")


def _heads_off(head_mask, config):
    """Heads whose mask is 0, of a head_mask of (heads,) or (layers, heads)."""
    if head_mask is None:
        return []
    import numpy

    mask = to_numpy(head_mask, "float32")
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    mask = numpy.broadcast_to(mask, (layers, heads))
    if not numpy.isin(mask, (0, 1)).all():
        raise error("`head_mask` is 0 or 1 for each head")
    return [(int(layer), int(head)) for layer, head in numpy.argwhere(mask == 0)]


def _classes():
    bases = {"ForPreTraining": _ForPreTraining, "ForCausalLM": _ForCausalLM}
    for family, model_type in {**_FAMILIES, "Auto": None}.items():
        for kind, head in _HEADS.items():
            name = _NAMES.get(
                (family, kind), f"{family}{kind}" if family != "Auto" or kind == "Model" else f"AutoModel{kind}"
            )
            base = bases.get(kind, PreTrainedModel)
            members = {"family": model_type, "head": head, "__module__": __name__, "__doc__": base.__doc__}
            yield name, type(name, (base,), members)


class AutoConfig:
    """The config of any model."""

    @staticmethod
    def from_pretrained(name=None, *, revision=None, local_files_only=False, **_):
        files = resolve(name, revision=revision, local_files_only=local_files_only)
        return Config(json.loads(_bertie.config_of(files)))


globals().update(_classes())
BertLMHeadModel = globals()["BertForCausalLM"]  # its older name
BertConfig = AutoConfig
__all__ = [name for name in globals() if name.startswith((*_FAMILIES, "Auto"))]
