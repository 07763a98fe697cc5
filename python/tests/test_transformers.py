"""transformers' conventions, against transformers itself on the same models."""

import numpy as np
import pytest

import bertie

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["You found me.", "The quick brown fox jumps over the lazy dog, naïvely!", "", "a [MASK] b"]
HEADS = {
    "base": "Model",
    "masked-lm": "ForMaskedLM",
    "sequence-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
    "next-sentence": "ForNextSentencePrediction",
    "pretraining": "ForPreTraining",
    "causal-lm": "ForCausalLM",
}


def theirs(folder, name="AutoModel"):
    """transformers' model, in fp32 and with attention that gives its weights."""
    made = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return made.eval()


def auto(kind):
    return "AutoModel" if kind == "Model" else f"AutoModel{kind}"


def close(ours, expected, mask=None, atol=2e-5):
    if mask is not None:  # what stands at padding is zero here, and anything there
        ours, expected = ours[mask], expected[mask]
    torch.testing.assert_close(ours, expected, atol=atol, rtol=1e-4)


# Tokenizers.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True},
        {"padding": "max_length", "max_length": 20, "truncation": True},
        {"padding": True, "pad_to_multiple_of": 8},
        {"truncation": True, "max_length": 6, "return_offsets_mapping": True, "return_special_tokens_mask": True},
        {"truncation": True, "max_length": 6, "stride": 2, "return_overflowing_tokens": True},
        {"add_special_tokens": False, "return_token_type_ids": False},
        {"return_length": True},
    ],
)
def test_a_tokenizer_gives_the_same(minilm, options):
    ours = bertie.AutoTokenizer.from_pretrained(minilm)(TEXTS, **options)
    expected = transformers.AutoTokenizer.from_pretrained(minilm)(TEXTS, **options)
    assert list(ours) == list(expected)
    for key in expected:
        assert ours[key] == expected[key], key


def test_a_tokenizers_other_functions(minilm):
    ours = bertie.BertTokenizer.from_pretrained(minilm)
    expected = transformers.AutoTokenizer.from_pretrained(minilm)
    pair = ("who are you?", "nobody in particular")
    ids = expected(*pair)["input_ids"]
    assert ours(*pair)["input_ids"] == ids and ours(*pair)["token_type_ids"] == expected(*pair)["token_type_ids"]
    assert ours([pair, pair], padding=True)["input_ids"] == expected([pair, pair], padding=True)["input_ids"]
    assert (
        ours(*pair, truncation="only_second", max_length=9)["input_ids"]
        == (expected(*pair, truncation="only_second", max_length=9)["input_ids"])
    )
    assert ours.encode(pair[0]) == expected.encode(pair[0])
    assert ours.decode(ids) == expected.decode(ids)
    assert ours.decode(torch.tensor(ids), skip_special_tokens=True) == expected.decode(ids, skip_special_tokens=True)
    assert ours.batch_decode([ids, ids]) == expected.batch_decode([ids, ids])
    assert ours.tokenize("embeddings") == expected.tokenize("embeddings")
    assert ours.convert_ids_to_tokens(ids) == expected.convert_ids_to_tokens(ids)
    assert ours.convert_tokens_to_ids(["me", "[MASK]", "~zz"]) == expected.convert_tokens_to_ids(
        ["me", "[MASK]", "~zz"]
    )
    for name in ("vocab_size", "pad_token", "mask_token", "mask_token_id", "cls_token_id", "model_max_length"):
        assert getattr(ours, name) == getattr(expected, name), name
    assert len(ours) == len(expected) and ours.get_vocab() == expected.get_vocab()
    words = [["Hello", "don't", "stop"], ["New", "York"]]
    a, b = ours(words, is_split_into_words=True), expected(words, is_split_into_words=True)
    assert a.input_ids == b.input_ids and [a.word_ids(i) for i in (0, 1)] == [b.word_ids(i) for i in (0, 1)]
    tensors = ours(TEXTS, padding=True, return_tensors="pt")
    assert tensors.input_ids.dtype == torch.int64 and tensors.to("cpu") is tensors
    assert ours("me", return_tensors="np")["input_ids"].shape == (1, 3)
    with pytest.raises(ValueError, match="padding=True"):
        ours(["a", "a longer one"], return_tensors="np")


@pytest.mark.parametrize(
    "name", ["fill-mask-roberta", "fill-mask-albert", "fill-mask-distilbert", "text-generation-gpt2"]
)
def test_tokenizers_of_other_families(golden, name):
    folder = str(golden / "tasks" / name)
    ours, expected = bertie.AutoTokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["You found me.", "the quick brown fox", "a b c d e"]
    a, b = ours(texts), expected(texts)
    assert list(a) == list(b) and all(a[key] == b[key] for key in b)
    assert ours.batch_decode(b["input_ids"]) == expected.batch_decode(b["input_ids"])
    assert ours.special_tokens_map == expected.special_tokens_map
    assert ours(texts[0], texts[1])["input_ids"] == expected(texts[0], texts[1])["input_ids"]


def test_a_saved_tokenizer_loads(minilm, tmp_path):
    ours = bertie.BertTokenizer.from_pretrained(minilm)
    ours.save_pretrained(tmp_path)
    assert bertie.AutoTokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"] == ours(TEXTS)["input_ids"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"] == ours(TEXTS)["input_ids"]


# Models.


def test_every_number_of_minilm(minilm):
    inputs = bertie.AutoTokenizer.from_pretrained(minilm)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(minilm)(**inputs, output_attentions=True, output_hidden_states=True)
    ours = bertie.AutoModel.from_pretrained(minilm)(**inputs, output_attentions=True, output_hidden_states=True)
    mask = inputs.attention_mask.bool()
    close(ours.last_hidden_state, expected.last_hidden_state, mask)
    close(ours.pooler_output, expected.pooler_output)
    assert len(ours.hidden_states) == 7 and len(ours.attentions) == 6
    for a, b in zip(ours.hidden_states, expected.hidden_states):
        close(a, b, mask)
    for a, b in zip(ours.attentions, expected.attentions):
        close(a.transpose(1, 2), b.transpose(1, 2), mask)
    assert (ours.last_hidden_state[~mask] == 0).all()


def test_bert_base(bert_base):
    sentence = "The bank deposited the money near the river bank."
    inputs = bertie.BertTokenizer.from_pretrained(bert_base)(sentence, return_tensors="pt")
    expected = theirs(bert_base, "BertModel")(**inputs, output_attentions=True)
    ours = bertie.BertModel.from_pretrained(bert_base)(**inputs, output_attentions=True)
    close(ours.last_hidden_state, expected.last_hidden_state.detach(), atol=5e-5)
    close(ours.pooler_output, expected.pooler_output.detach(), atol=5e-5)
    for a, b in zip(ours.attentions, expected.attentions):
        close(a, b.detach())
    if bertie.load(bert_base).can("masked_lm"):
        masked = theirs(bert_base, "BertForMaskedLM")(**inputs).logits.detach()
        close(bertie.BertForMaskedLM.from_pretrained(bert_base)(**inputs).logits, masked, atol=2e-4)


def golden_models():
    from conftest import GOLDEN

    folder = GOLDEN / "families"
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if name.endswith("-0") and "seq2seq" not in name]  # an encoder-decoder has no class


@pytest.mark.parametrize("name", golden_models())
def test_auto_classes_for_every_family_and_head(golden, name):
    folder = str(golden / "families" / name)
    kind = next(k for suffix, k in HEADS.items() if name[:-2].endswith(suffix))
    config = bertie.AutoConfig.from_pretrained(folder)
    rng = np.random.default_rng(1)
    # transformers' GPT-2 classifies one row at a time where it has no padding token.
    ids = torch.from_numpy(rng.integers(5, config.vocab_size, (1 if config.model_type == "gpt2" else 3, 9)))
    mask = torch.ones_like(ids)
    mask[1:2, 6:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if config.model_type in ("bert", "albert"):
        inputs["token_type_ids"] = torch.from_numpy(rng.integers(0, 2, (3, 9)))
    with torch.no_grad():
        expected = theirs(folder, auto(kind))(**inputs, output_attentions=True, output_hidden_states=True)
    ours = getattr(bertie, auto(kind)).from_pretrained(folder)(
        **inputs, output_attentions=True, output_hidden_states=True
    )
    seen = mask.bool()
    for key, value in expected.items():
        if key in ("past_key_values", "cross_attentions") or value is None:
            continue
        assert key in ours, key
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours[key], value))):
            if key == "attentions":
                close(a.transpose(1, 2), b.transpose(1, 2), seen)
            else:
                close(
                    a,
                    b,
                    seen if a.ndim >= 2 and a.shape[:2] == seen.shape and key != "pooler_output" else None,
                    atol=1e-4,
                )


def test_families_own_classes_and_their_errors(minilm, golden):
    assert bertie.BertModel.from_pretrained(minilm).num_parameters() == 22713216
    with pytest.raises(bertie.Error, match="family bert"):
        bertie.RobertaModel.from_pretrained(minilm)
    with pytest.raises(bertie.Error, match="no head"):
        bertie.BertForQuestionAnswering.from_pretrained(minilm)
    gpt2 = golden / "tasks" / "text-generation-gpt2"
    assert bertie.GPT2LMHeadModel.from_pretrained(gpt2).config.model_type == "gpt2"
    with pytest.raises(AttributeError):
        bertie.BertForFortuneTelling


def test_outputs_are_read_as_transformers_outputs_are(minilm):
    model = bertie.BertModel.from_pretrained(minilm, output_attentions=True).eval().to("cpu")
    inputs = bertie.BertTokenizer.from_pretrained(minilm)("You found me.", return_tensors="np")
    out = model(**inputs)
    assert list(out) == ["last_hidden_state", "pooler_output", "attentions"]
    assert out[0] is out.last_hidden_state and out[-1] is out["attentions"] and out.hidden_states is None
    assert isinstance(out[0], np.ndarray) and out[0].flags.writeable
    hidden, pooled, attentions = model(**inputs, return_dict=False)
    np.testing.assert_array_equal(hidden, out[0])
    assert model(inputs["input_ids"], output_attentions=False)[0].shape == (1, 6, 384)


def test_padding_on_the_left_is_padding_too(minilm):
    tokenizer = bertie.BertTokenizer.from_pretrained(minilm, padding_side="left")
    model = bertie.BertModel.from_pretrained(minilm)
    both = model(**tokenizer(TEXTS[:2], padding=True, return_tensors="np"))[0]
    alone = model(**tokenizer(TEXTS[0], return_tensors="np"))[0][0]
    np.testing.assert_array_equal(both[0, -len(alone) :], alone)
    assert (both[0, : -len(alone)] == 0).all()


def test_what_bertie_cannot_do_is_an_error(minilm):
    model = bertie.BertModel.from_pretrained(minilm)
    ids = np.array([[101, 2017, 102]])
    with pytest.raises(bertie.Error, match="zeros between ones"):
        model(ids, attention_mask=np.array([[1, 0, 1]]))
    with pytest.raises(bertie.Error, match="position_ids"):
        model(ids, position_ids=np.array([[2, 1, 0]]))
    np.testing.assert_array_equal(model(ids, position_ids=np.array([[0, 1, 2]]))[0], model(ids)[0])
    with pytest.raises(bertie.Error):
        model(np.array([[101, 99999999, 102]]))
    with pytest.raises(bertie.Error, match="finetune"):
        model.train()


def test_heads_are_masked_as_in_transformers(bert_base):
    ids = np.array([[101, 2017, 2179, 2033, 1012, 102]])
    model = bertie.BertModel.from_pretrained(bert_base)
    mask = np.ones((12, 12))
    mask[3, 5] = 0
    assert not np.array_equal(model(ids, head_mask=mask)[0], model(ids)[0])
    np.testing.assert_array_equal(model(ids, head_mask=np.ones(12))[0], model(ids)[0])


def test_losses_and_greedy_generation(golden):
    folder = str(golden / "tasks" / "text-generation-gpt2")
    ours, expected = bertie.AutoModelForCausalLM.from_pretrained(folder), theirs(folder, "AutoModelForCausalLM")
    ids = torch.tensor([[5, 8, 9, 11], [7, 6, 12, 10]])
    with torch.no_grad():
        close(ours(ids, labels=ids).loss, expected(ids, labels=ids).loss)
        greedy = expected.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)
    made = ours.generate(ids, max_new_tokens=6)
    assert made.shape[1] <= 10 and torch.equal(made, greedy[:, : made.shape[1]])


def test_a_saved_model_loads_in_transformers(minilm, tmp_path):
    ours = bertie.BertModel.from_pretrained(minilm)
    ours.save_pretrained(tmp_path)
    ids = torch.tensor([[101, 2017, 2179, 102]])
    close(ours(ids)[0], theirs(tmp_path, "BertModel")(ids)[0].detach())


def test_nothing_is_the_model_in_the_box():
    tokenizer, model = bertie.BertTokenizer.from_pretrained(), bertie.BertForMaskedLM.from_pretrained()
    inputs = tokenizer("The man went to the [MASK].", return_tensors="np")
    place = inputs.input_ids[0].tolist().index(tokenizer.mask_token_id)
    best = int(model(**inputs).logits[0, place].argmax())
    assert tokenizer.decode([best]) == bertie.load().fill_mask("The man went to the [MASK].").masks[0][0].token


# The script that everybody knows, and what is drawn from it.

SCRIPT = """
from {library} import BertTokenizer, BertModel
import torch

tokenizer = BertTokenizer.from_pretrained({name!r})
model = BertModel.from_pretrained({name!r}{more})
model.eval()
model.to('cpu')

sentence = "The bank deposited the money near the river bank."
inputs = tokenizer(sentence, return_tensors='pt')

with torch.no_grad():
    outputs = model(**inputs, output_attentions=True)

attentions = outputs.attentions
tokens = tokenizer.convert_ids_to_tokens(inputs['input_ids'][0])
first_head = attentions[0][0, 0]
shape = attentions[0].shape
"""


def run_script(library, name, more=""):
    space = {}
    exec(SCRIPT.format(library=library, name=name, more=more), space)
    return space


def test_the_script_that_everybody_knows(bert_base):
    ours = run_script("bertie", bert_base)
    assert len(ours["attentions"]) == 12 and ours["shape"] == (1, 12, 12, 12)
    expected = run_script("transformers", bert_base, ", attn_implementation='eager', dtype=torch.float32")
    assert ours["tokens"] == expected["tokens"]
    for a, b in zip(ours["attentions"], expected["attentions"]):
        close(a, b)


def test_bertviz_takes_the_result(minilm):
    bertviz = pytest.importorskip("bertviz")
    script = run_script("bertie", minilm)
    for view in (bertviz.head_view, bertviz.model_view):
        page = view(script["attentions"], script["tokens"], html_action="return")
        assert "deposited" in page.data
