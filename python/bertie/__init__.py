"""BERT in C++: exact hidden states, attention and every task, at the speed of the machine.

    import bertie
    model = bertie.load()                     # the model in the box; or a name, or a folder
    model.fill_mask("Paris is the [MASK] of France.")
    model.embed(["one text", "another"])      # a NumPy array

    from bertie import BertTokenizer, BertModel   # transformers' conventions
    from bertie import BertClassifier             # scikit-learn's

What is not needed is not imported: NumPy, torch, pandas and scikit-learn come in when they are used.
"""

from ._bertie import Compute, Error, Look, Score, __version__
from .text_model import TextModel, info, load, models, pull, quantize

# Names that are imported when they are first used, by the module that has them.
_LATER = {
    name: module
    for module, names in {
        "arrays": "attention attention_forward attention_backward similarity rank",
        "seeing": "Attention",
        "indexing": "Index",
        "training": "finetune pretrain distill evaluate prepare learn_vocabulary",
        "estimators": "BertClassifier BertRegressor BertTagger BertVectors",
        "tokenization": "AutoTokenizer BertTokenizer BertTokenizerFast DistilBertTokenizer DistilBertTokenizerFast "
        "RobertaTokenizer RobertaTokenizerFast XLMRobertaTokenizer XLMRobertaTokenizerFast CamembertTokenizer "
        "CamembertTokenizerFast AlbertTokenizer AlbertTokenizerFast GPT2Tokenizer GPT2TokenizerFast BatchEncoding",
    }.items()
    for name in names.split()
}
_FAMILIES = ("Bert", "DistilBert", "Roberta", "XLMRoberta", "Camembert", "Albert", "GPT2", "Auto")


def __getattr__(name):
    from importlib import import_module

    module = _LATER.get(name)
    if module is None and name.startswith(_FAMILIES):
        module = "pretrained"
    if module is None:
        raise AttributeError(f"module 'bertie' has no attribute {name!r}")
    try:
        value = getattr(import_module(f".{module}", __name__), name)
    except AttributeError:
        raise AttributeError(f"module 'bertie' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__():
    from . import pretrained

    return sorted({*globals(), *_LATER, *pretrained.__all__})
