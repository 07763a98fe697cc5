"""Memory stays flat over thousands of calls."""

import gc

import numpy as np
import pytest

import bertie


def resident():
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def calls(golden):
    small = bertie.load(golden / "tasks" / "sentence-similarity-bert", threads=1)
    masked = bertie.load(golden / "tasks" / "fill-mask-bert", threads=1)
    model = bertie.AutoModel.from_pretrained(golden / "families" / "bert-base-0", threads=1)
    tokenizer = bertie.AutoTokenizer.from_pretrained(golden / "tasks" / "sentence-similarity-bert")
    ids = np.array([[5, 6, 7], [5, 6, 0]])
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    q = np.ones((3, 4), "float32")

    def fails():
        with pytest.raises(bertie.Error):
            small.with_max_length(10**6)

    def goes_back():
        _, saved = bertie.attention_forward(q, q, q, threads=1)
        bertie.attention_backward(saved, q)

    return {
        "embed": lambda: small.embed(["a text", "another"]),
        "attend": lambda: small.attend("a text").weights,
        "fill_mask": lambda: masked.fill_mask(f"a {masked.tokenizer.token(masked.tokenizer.mask_id)}"),
        "tokenizer": lambda: tokenizer(["a text", "b"], padding=True, return_tensors="np"),
        "model": lambda: model(ids, attention_mask=mask, output_attentions=True, output_hidden_states=True),
        "attention": goes_back,
        "error": fails,
    }


@pytest.mark.parametrize("name", ["embed", "attend", "fill_mask", "tokenizer", "model", "attention", "error"])
def test_ten_thousand_calls(golden, name):
    call = calls(golden)[name]
    for _ in range(1000):
        call()
    gc.collect()
    before = resident()
    for _ in range(10_000):
        call()
    gc.collect()
    assert resident() - before < 2_000_000


def test_arrays_outlive_their_models(golden):
    vectors = bertie.load(golden / "tasks" / "sentence-similarity-bert").embed(["a text"])
    output = bertie.AutoModel.from_pretrained(golden / "families" / "bert-base-0")(np.array([[5, 6]]))
    gc.collect()
    assert np.isfinite(vectors).all() and np.isfinite(output.last_hidden_state).all()
