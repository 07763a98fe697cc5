"""bertie.load and its tasks."""

import pickle
import signal
import threading
import time

import numpy as np
import pytest

import bertie

TEXTS = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


def test_one_text_and_many_give_the_same_vectors(box):
    many = box.embed(TEXTS)
    assert many.shape == (3, box.dimension) and many.dtype == np.float32
    for text, row in zip(TEXTS, many):
        np.testing.assert_array_equal(box.embed(text), row)
    assert box.embed([]).shape == (0, box.dimension)


def test_anything_that_holds_texts_will_do(box):
    expected = box.embed(TEXTS)
    for texts in (tuple(TEXTS), iter(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object)):
        np.testing.assert_array_equal(box.embed(texts), expected)


def test_results_of_texts_are_typed_and_read_like_dicts(box):
    filling = box.fill_mask("The man went to the [MASK] .", top=3)
    fill = filling.masks[0][0]
    assert len(filling.masks[0]) == 3 and isinstance(fill.token, str)
    assert fill["token"] == fill.token and set(dict(fill)) == {"id", "token", "sequence", "score"}
    assert repr(fill).startswith("Fill(id=")
    with pytest.raises(KeyError):
        fill["nothing"]


def test_a_result_survives_pickling(box):
    for result in (box.fill_mask("a [MASK]"), box.score("The cat sat."), box.next_sentence("a", "b")):
        assert pickle.loads(pickle.dumps(result)) == result


def test_a_model_survives_pickling(box):
    long = "a rather long text, " * 40
    for model in (
        box,
        bertie.load(precision="int8"),
        box.with_pooling("cls", "max", normalize=True),
        box.with_max_length(16),
        box.without([(0, 1), (2, 3)]),
    ):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.embed([*TEXTS, long]), model.embed([*TEXTS, long]))
        assert (again.precision, again.pooling, again.heads_off) == (model.precision, model.pooling, model.heads_off)


def test_tasks_of_a_sibling_are_done_as_was_asked(box):
    """classify goes to another model in the box: with the same heads off."""
    text = "A fine film."
    if not box.labels and "bertie-mini/sentiment" not in bertie.models()[1]:
        pytest.skip("this build has no model for classify in the box")
    off = box.without([(layer, head) for layer in range(6) for head in range(8)])
    assert off.classify(text).score != box.classify(text).score


def test_scores_are_of_tokens_in_the_text(box):
    text = "The cat sat on the mat."
    score = box.score(text)
    assert [text[s.offset[0] : s.offset[1]].lower() for s in score.scores] == [s.token for s in score.scores]
    assert score.log_probability == pytest.approx(sum(s.log_probability for s in score.scores))


def test_pairs_come_as_tuples_or_as_two_lists(box):
    pairs = [("I was hungry.", "I ate."), ("I was hungry.", "Physics is hard.")]
    first = box.next_sentence(pairs)
    second = box.next_sentence([a for a, _ in pairs], [b for _, b in pairs])
    third = box.next_sentence("I was hungry.", [b for _, b in pairs])
    assert first == second == third
    assert box.next_sentence(*pairs[0]) == first[0]
    with pytest.raises(ValueError, match="first texts"):
        box.next_sentence(["a"], ["b", "c"])


def test_attention_is_a_view_of_what_was_computed(box):
    attention = box.attend("You found me.")
    weights = attention.weights
    assert weights.shape == (box.config["num_hidden_layers"], attention.heads, 6, 6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(attention.at(2, 1), weights[2, 1])
    assert not weights.flags.owndata
    del attention
    assert weights[0, 0, 0].sum() == pytest.approx(1, abs=1e-5)  # the memory lives as long as the array


def test_layers_may_be_chosen(box):
    some = box.attend("You found me.", layers=[1, 3])
    assert some.kept == [1, 3] and some.weights.shape[0] == 2
    np.testing.assert_array_equal(some.at(3, 0), box.attend("You found me.").at(3, 0))


def test_attention_shows_itself_without_a_network(box):
    attention = box.attend("You <found> me.")
    page = attention.html()
    shown = attention._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "</iframe>" in shown
    assert 'src="http' not in page and "@import" not in page and 'fetch("http' not in page
    assert attention.svg(0, 0).startswith("<svg") and attention.png().startswith(b"\x89PNG")


def test_senses_tell_places_apart(box):
    senses = box.senses("bank", ["He sat on the river bank.", "The bank lent me money.", "A bank gives credit."])
    assert [p.word for p in senses.places] == ["bank"] * 3
    assert senses.vectors.shape == (senses.layers + 1, 3, box.dimension)
    np.testing.assert_allclose(np.diag(senses.cosines(senses.layers)), 1, atol=1e-5)


def test_tokens_know_their_places(box):
    text = "Naïve café, 東京"
    tokens = box.tokenize(text)
    assert tokens.tokens[0] == "[CLS]" and len(tokens) == len(tokens.ids)
    assert "".join(text[b:e] for b, e in tokens.offsets).replace(" ", "") == text.replace(" ", "")
    assert [t.ids for t in box.tokenize([text, "a"])][0] == tokens.ids


def test_similar_texts_come_first(minilm):
    model = bertie.load(minilm)
    best = model.similar("sunshine", TEXTS, top=2)
    assert best[0].text == TEXTS[1] and best[0].score > best[1].score
    matrix = model.similar(TEXTS)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    assert [r[0].index for r in model.similar(TEXTS, TEXTS)] == [0, 1, 2]


def test_heads_can_be_switched_off(box):
    off = box.without([(0, 1), (2, 3)])
    assert off.heads_off == [(0, 1), (2, 3)]
    assert not np.array_equal(off.embed(TEXTS[0]), box.embed(TEXTS[0]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(off)).embed(TEXTS[0]), off.embed(TEXTS[0]))


def test_tasks_with_a_head(golden):
    answering = bertie.load(golden / "tasks" / "question-answering-bert")
    found = answering.answer("what is it?", "it is a small model", top=2)
    assert len(found.answers) == 2 and found.text in "it is a small model"
    assert len(answering.answer(["who?", "what?"], "it is a small model")) == 2


def test_a_tagger_that_learned_first_pieces_says_words(box):
    if "bertie-mini/entities" not in bertie.models()[1]:
        pytest.skip("this build has no tagger in the box")
    text = "Schwarzenegger was born in Thal, near Graz."
    assert box.tag(text) == box.tag(text, aggregation="first") == box.tag([text])[0]
    assert all(e.text in text.replace(",", " ").replace(".", " ").split() for e in box.tag(text).entities)


def test_generation_can_be_heard_and_stopped(golden):
    folder = golden / "tasks" / "text-generation-gpt2"
    if not folder.is_dir():
        pytest.skip("no golden model that generates")
    model = bertie.load(folder)
    pieces = []
    whole = model.generate("the", max_new_tokens=8, on_text=pieces.append)
    assert "".join(pieces) == whole.text and whole.finish_reason in ("max_new_tokens", "end_of_text")
    assert model.generate("the", max_new_tokens=8, on_text=lambda piece: False).finish_reason == "by_caller"
    drawn = [model.generate("the", max_new_tokens=8, temperature=1.0, seed=3).text for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_what_a_model_is():
    described = bertie.info()
    assert described["layers"] == 6 and described["hidden"] == 256 and described["tokenizer"]["kind"] == "WordPiece"
    cached, embedded = bertie.models()
    assert "bertie-mini" in embedded and isinstance(cached, list)


# Errors.


def test_an_error_says_what_to_try():
    with pytest.raises(bertie.Error) as caught:
        bertie.load("no/such-model")
    assert "no/such-model" in caught.value.message and "pull" in caught.value.hint
    assert str(caught.value) == f"{caught.value.message}\n  try: {caught.value.hint}"
    assert isinstance(caught.value, RuntimeError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.hint == caught.value.hint


def test_a_text_without_a_mask_is_an_error(box):
    with pytest.raises(bertie.Error, match="no mask") as caught:
        box.fill_mask("nothing to fill")
    assert "[MASK]" in caught.value.hint
    assert box.fill_mask(["nothing to fill", "a [MASK]"])[0].masks == []


def test_what_is_no_text_is_named(box):
    with pytest.raises(TypeError, match="item 1 is not a str but a int"):
        box.embed(["a", 3])
    with pytest.raises(ValueError, match="surrogate"):
        box.embed("\ud800")
    with pytest.raises(TypeError, match="average"):
        box.tag(["a"], aggregation="nothing")
    with pytest.raises(ValueError, match="no pooling 'average'; there are cls, mean"):
        box.with_pooling("average")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="one of its columns, 'review'"):
        box.classify(pandas.DataFrame({"review": TEXTS}))


def test_a_task_that_the_model_cannot_do_is_an_error(minilm):
    with pytest.raises(bertie.Error):
        bertie.load(minilm).answer("who?", "me")


# Progress, interruption, threads.


def test_progress_by_tqdms_convention(box):
    class Bar:
        made = []

        def __init__(self, total, desc):
            self.total, self.n, self.closed = total, 0, False
            Bar.made.append(self)

        def update(self, more):
            self.n += more

        def close(self):
            self.closed = True

    texts = ["a text"] * 3000
    box.embed(texts, progress=Bar)
    assert [(b.total, b.n, b.closed) for b in Bar.made] == [(3000, 3000, True)]
    told = []
    box.embed(texts, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (3000, 3000) and len(told) > 1
    bar = Bar(total=3000, desc="")
    box.embed(texts, progress=bar)
    assert bar.n == 3000 and not bar.closed


def test_what_progress_raises_ends_the_call(box):
    def fail(done, of):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        box.embed(["a text"] * 3000, progress=fail)
    assert box.embed("still works").shape == (box.dimension,)


def test_ctrl_c_ends_a_long_call(box):
    texts = ["a rather long text, " * 20] * 100_000  # minutes of work
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        box.embed(texts)
    assert time.monotonic() - began < 20
    assert box.embed("still works").shape == (box.dimension,)


def test_other_threads_run_meanwhile(box):
    """The GIL is free: a thread counts while the model works."""
    counted, over = [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    box.embed(["some words to read " * 10] * 500)
    during = counted[0] - before
    over.set()
    thread.join()
    assert during > 10


def test_many_threads_share_a_model(box):
    model = box.with_threads(1)
    expected = model.embed(TEXTS)
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(model.embed(TEXTS), expected) or model.score(TEXTS[0]).tokens == 0:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# pandas and sentence-transformers.


def test_a_column_gives_a_frame_with_its_index(box):
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(TEXTS, index=[10, 20, 30])
    vectors = box.embed(column)
    assert list(vectors.index) == [10, 20, 30] and vectors.shape == (3, box.dimension)
    scores = box.score(column)
    assert list(scores.columns) == ["log_probability", "perplexity", "tokens"]
    assert list(box.similar("weather", column, top=2).columns) == ["score", "text"]
    following = box.next_sentence(column, column)
    assert list(following.index) == [10, 20, 30] and following.is_next.between(0, 1).all()
    masked = box.fill_mask(pandas.Series(["a [MASK]", "b"]))
    assert masked.token.notna().tolist() == [True, False]


def test_encode_as_sentence_transformers_has_it(minilm):
    model = bertie.load(minilm)
    one = model.encode("hello world")
    many = model.encode(TEXTS, batch_size=2, show_progress_bar=False, normalize_embeddings=True)
    assert one.shape == (384,) and many.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, atol=1e-5)
    assert isinstance(model.encode(TEXTS, convert_to_numpy=False), list)
    tokens = model.encode(TEXTS, output_value="token_embeddings")
    assert [len(t) for t in tokens] == [len(model.tokenize(t)) for t in TEXTS]
    cut = model.encode(TEXTS, truncate_dim=64, normalize_embeddings=True)
    whole = model.encode(TEXTS)[:, :64]
    np.testing.assert_allclose(cut, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(TypeError, match="normalise"):
        model.encode(TEXTS, normalise=True)
    torch = pytest.importorskip("torch")
    assert torch.equal(model.encode(TEXTS, convert_to_tensor=True), torch.from_numpy(model.encode(TEXTS)))
