"""finetune, pretrain, distill and evaluate."""

import signal
import threading

import pytest

import bertie

GOOD = ["a fine film", "what a lovely story", "great fun", "i loved it", "wonderful acting", "a joy"]
BAD = ["a dull film", "what a boring story", "no fun at all", "i hated it", "terrible acting", "a bore"]
ROWS = [(text, "good") for text in GOOD * 4] + [(text, "bad") for text in BAD * 4]
QUICK = {"batch": 8, "threads": 1}


def test_a_few_rows_make_a_classifier(tmp_path):
    steps, evaluations, plans = [], [], []
    tuned = bertie.finetune(
        "classify",
        ROWS,
        ROWS,
        out=tmp_path / "model",
        steps=60,
        rate=3e-4,
        on_step=steps.append,
        on_evaluation=evaluations.append,
        on_plan=plans.append,
        **QUICK,
    )
    assert [s.step for s in steps] == list(range(1, 61)) and steps[-1].loss < steps[0].loss
    assert plans[0].labels == ["bad", "good"] and plans[0].rows == len(ROWS)
    assert evaluations and evaluations[-1].scores[0].name == "accuracy"
    assert tuned.scores["accuracy"] > 0.9 and tuned.end == "limit"
    assert [r.label for r in tuned.model.classify([GOOD[0], BAD[0]])] == ["good", "bad"]

    found = bertie.evaluate(tuned.model, ROWS, resamples=50, mistakes=5)
    assert found["accuracy"] == pytest.approx(tuned.scores["accuracy"])
    low, high = found.intervals["accuracy"]
    assert low <= found["accuracy"] <= high
    assert found.confusion.sum() == len(ROWS) and len(found.mistakes) <= 5
    assert bertie.evaluate(str(tmp_path / "model"), ROWS, "classify").rows == len(ROWS)


def test_rows_come_in_many_forms(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts, labels = [r[0] for r in ROWS], [r[1] for r in ROWS]
    table = pandas.DataFrame({"text": texts, "label": labels})
    file = tmp_path / "rows.csv"
    table.to_csv(file, index=False)
    dicts = [{"text": t, "label": y} for t, y in ROWS]
    losses = set()
    for rows in (ROWS, (texts, labels), table, file, str(file), dicts):
        steps = []
        bertie.finetune("classify", rows, steps=2, dev_share=0, on_step=steps.append, **QUICK)
        losses.add(round(steps[-1].loss, 6))
    assert len(losses) == 1


def test_an_option_that_does_not_exist_is_named():
    for given, meant in (("epoch", "epochs"), ("optimizer", "method"), ("learning_rate", "rate"), ("lr", "rate")):
        with pytest.raises(TypeError, match=f"no option '{given}'; did you mean '{meant}'"):
            bertie.finetune("classify", ROWS, **{given: 3})


def test_a_value_that_an_option_does_not_take_is_an_error_with_its_name():
    for option, value, said in (
        ("method", "adam", "'adamw' or 'bert-adam' or 'lamb' or 'muon', not 'adam'"),
        ("rate", "high", "a number, not 'high'"),
        ("steps", -1, "a whole number from 0 on, not -1"),
        ("freeze", "all", "a whole number or None, not 'all'"),
    ):
        with pytest.raises(TypeError, match=f"{option} takes {said}"):
            bertie.finetune("classify", ROWS, **{option: value})
    with pytest.raises(TypeError, match="task takes 'classify' or"):
        bertie.finetune("clasify", ROWS)
    with pytest.raises(bertie.Error, match="nothing to learn from"):
        bertie.finetune("classify")


def test_rows_of_another_shape_are_errors():
    for rows, said in (
        ([("a", "b", "c")], "row 0 is 3 values; of classify a row is .text, label."),
        ([*ROWS, "a text"], f"row {len(ROWS)} is one text"),
        ((["a", "b"], ["x"]), "2 texts and 1 labels"),
    ):
        with pytest.raises(ValueError, match=said):
            bertie.finetune("classify", rows)


def test_bad_rows_are_told_of(tmp_path):
    rows, told, plans = [*ROWS, ("", "good"), ("a film", None)], [], []
    options = {"skip_bad": True, "on_bad_row": told.append}
    tuned = bertie.finetune(
        "classify", rows, out=tmp_path / "m", steps=1, dev_share=0, on_plan=plans.append, **options, **QUICK
    )
    assert len(told) == 2 and "empty" in told[0] and "no label" in told[1]
    assert plans[0].bad_rows == 2 and plans[0].train.batch == 8 and plans[0].problem == "single_label"
    assert bertie.evaluate(tuned.model, [*ROWS, ("", "good")], **options).rows == len(ROWS) and len(told) == 3


def test_seeds_and_baselines_are_told_of_one_by_one(tmp_path):
    begun, done, baselines, bar = [], [], [], []
    bertie.finetune(
        "classify",
        ROWS,
        ROWS,
        out=tmp_path / "m",
        steps=2,
        seeds=2,
        method="muon",
        baseline=True,
        on_seed_begun=begun.append,
        on_seed=done.append,
        on_baseline_done=baselines.append,
        progress=lambda at, of: bar.append((at, of)),
        **QUICK,
    )
    assert begun == [0, 1] and [s.seed for s in done] == [1, 2]
    assert bar == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert "TF-IDF" in baselines[0].name and baselines[0].evaluation.scores[0].name == "accuracy"


def test_a_run_can_be_stopped_and_resumed(tmp_path):
    seen = []
    options = {"out": tmp_path / "model", "steps": 12, "dev_share": 0, **QUICK}
    half = bertie.finetune("classify", ROWS, on_step=seen.append, stop=lambda: len(seen) >= 5, **options)
    assert half.end == "stopped" and len(seen) == 5
    rest = []
    bertie.finetune("classify", ROWS, on_step=rest.append, resume=True, **options)
    assert [s.step for s in rest] == list(range(6, 13))


def test_what_a_function_raises_ends_the_run(tmp_path):
    def fail(progress):
        if progress.step == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        bertie.finetune("classify", ROWS, out=tmp_path / "m", steps=500, dev_share=0, on_step=fail, **QUICK)


def test_ctrl_c_ends_a_run(tmp_path):
    def interrupt(progress):
        if progress.step == 2:
            threading.Timer(0, signal.raise_signal, [signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        bertie.finetune("classify", ROWS, out=tmp_path / "m", steps=5000, dev_share=0, on_step=interrupt, **QUICK)


def test_a_student_learns_from_its_teacher(tmp_path):
    teacher = bertie.finetune("classify", ROWS, out=tmp_path / "teacher", steps=40, rate=3e-4, dev_share=0, **QUICK)
    student = bertie.distill(
        teacher.model, "classify", ROWS, ROWS, out=tmp_path / "student", depth=2, steps=40, rate=3e-4, **QUICK
    )
    assert student.model.config["num_hidden_layers"] == 2 and student.scores["accuracy"] > 0.6

    # Texts without labels: what the teacher says of them is learned.
    plans, taught = [], []
    bertie.distill(
        teacher.model,
        "classify",
        unlabeled=[text for text, _ in ROWS],
        depth=1,
        steps=2,
        on_plan=plans.append,
        on_taught=lambda done, of: taught.append((done, of)),
        **QUICK,
    )
    assert plans[0].rows == len(ROWS) and plans[0].tokens > 4 * len(ROWS) and taught[-1] == (len(ROWS), len(ROWS))


def test_text_to_vocabulary_to_shards_to_a_model(tmp_path):
    text = tmp_path / "text.txt"
    lines = [f"{a} and {b} .\nit was {a} .\n\n" for a in GOOD for b in BAD for _ in range(4)]
    text.write_text("".join(lines))
    tokens = bertie.learn_vocabulary(text, tmp_path / "vocab" / "vocab.txt", size=200)
    assert "[MASK]" in tokens and len(tokens) <= 200
    assert set(bertie.learn_vocabulary(text, from_model=tmp_path / "vocab", size=60)) <= set(tokens)
    shards = bertie.prepare(text, tmp_path / "shards", str(tmp_path / "vocab"), held_out=0.2)
    assert shards["train"]["documents"] > 0
    steps, evaluations = [], []
    result = bertie.pretrain(
        tmp_path / "shards",
        tmp_path / "run",
        size="tiny",
        steps=3,
        batch=4,
        max_length=32,
        threads=1,
        method="muon",
        initial="nearby",
        random_within=5,
        mask_rate_end=0.3,
        watch=["it was [MASK] ."],
        eval_every=3,
        on_step=steps.append,
        on_evaluation=evaluations.append,
    )
    assert result.step == 3 and len(steps) == 3 and steps[0].metrics[0].name == "token"
    assert evaluations[-1].watched[0].text == "it was [MASK] ." and evaluations[-1].watched[0].masks[0]
    scores = bertie.evaluate(str(result.checkpoint), tmp_path / "shards", "lm", max_length=32)
    assert scores.sequences > 0 and scores.bits_per_byte > 0
