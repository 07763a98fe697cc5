"""Vectors that are saved and searched, and models in 8-bit integers."""

import pickle

import numpy as np
import pytest

import bertie

TEXTS = [f"text number {i}, of {word}" for i, word in enumerate(["rain", "bread", "trains", "music", "money"] * 4)]


def test_an_index_finds_what_similar_finds(box, tmp_path):
    index = box.index((t for t in TEXTS), tmp_path / "index")  # more than fits into memory may come
    expected = box.similar("a text of bread", TEXTS, top=3)
    found = index.search("a text of bread", top=3)
    assert [f.text for f in found] == [e.text for e in expected]
    assert found[0].score == pytest.approx(expected[0].score, abs=1e-3)
    assert len(index) == len(TEXTS) and index[-1] == TEXTS[-1] and index.dimension == box.dimension

    again = bertie.Index(tmp_path / "index")  # loads the model that it was made with
    assert again.search(["a text of bread", TEXTS[3]], top=3)[0] == found
    assert again.search(box.embed("a text of bread"), top=3) == found
    assert pickle.loads(pickle.dumps(again)).search(TEXTS[5], top=1)[0].index == 5


def test_an_index_of_a_column_in_8_bits(box, tmp_path):
    pandas = pytest.importorskip("pandas")
    index = box.index(pandas.Series(TEXTS), tmp_path / "index", numbers="int8", prefix="passage: ")
    assert index.numbers == "int8" and "passage: " in index.how
    assert index.search(TEXTS[7], top=1, prefix="passage: ")[0].index == 7


def test_what_was_cut_off_is_gone_on_with(box, tmp_path, monkeypatch):
    from bertie import indexing

    monkeypatch.setattr(indexing, "_AT_ONCE", 4)

    def cut_off():
        yield from TEXTS[:10]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        box.index(cut_off(), tmp_path / "index")
    with pytest.raises(bertie.Error, match="begun"):
        box.index(TEXTS, tmp_path / "index")
    told = []
    box.index(TEXTS, tmp_path / "index", resume=True, progress=lambda done, of: told.append((done, of)))
    assert told[0] == (12, 20) and told[-1] == (20, 20)
    whole = box.index(TEXTS, tmp_path / "whole")
    for name in ("vectors.npy", "texts", "ends.npy"):
        assert (tmp_path / "index" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(whole) == 20


def test_mistakes_with_an_index_are_errors(box, minilm, tmp_path):
    index = box.index(TEXTS, tmp_path / "index")
    with pytest.raises(bertie.Error, match="an index already"):
        box.index(TEXTS, tmp_path / "index")
    with pytest.raises(bertie.Error, match="made with bertie-mini"):
        bertie.Index(tmp_path / "index", minilm)
    with pytest.raises(bertie.Error):
        bertie.Index(tmp_path / "nothing")
    with pytest.raises(ValueError, match="3 numbers"):
        index.search(np.ones(3))
    with pytest.raises(TypeError, match="one text"):
        box.index("a text", tmp_path / "other")
    with pytest.raises(IndexError):
        index[20]


def test_a_quantized_model_is_smaller_and_close(box, tmp_path):
    done = bertie.quantize(box, tmp_path / "int8", [f"He went to the {t}." for t in TEXTS])
    assert done.bytes < done.bytes_before and done.mean_cosine > 0.99
    model = bertie.load(tmp_path / "int8")
    assert model.precision == "int8" and box.precision == "fp32"
    a, b = model.embed(TEXTS), box.embed(TEXTS)
    assert ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min() > 0.98
    with pytest.raises(bertie.Error, match="quantized already"):
        bertie.quantize(model, tmp_path / "again")
