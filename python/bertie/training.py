"""Fine-tuning, pre-training, distillation and evaluation, with functions that are told how it goes.

Every option of include/bertie/finetune.h, train.h and evaluate.h is an argument by the name that it has there.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Optional

from . import _bertie
from .inputs import as_list
from .progress import Progress
from .text_model import EMBEDDED, TextModel, load

# Columns that rows given as tuples have, by task; the formats of docs/finetuning.md know them.
_COLUMNS = {
    "classify": ("text", "label"),
    "pair": ("text_a", "text_b", "label"),
    "tag": ("tokens", "tags"),
    "answer": ("question", "context", "answers"),
}
# The task of a model's head.
_TASKS = {"classify": "classify", "tag": "tag", "answer": "answer"}


def _plain(value):
    """What JSON can say of a value of NumPy's or pandas'."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _records(task, rows):
    """Rows as dicts: of a DataFrame, of (texts, labels), of tuples, of dicts."""
    if hasattr(rows, "to_dict"):
        return rows.to_dict(orient="records")
    columns = _COLUMNS[task]
    if isinstance(rows, tuple) and len(rows) == 2 and not isinstance(rows[0], str):
        texts, labels = as_list(rows[0]), as_list(rows[1])
        if len(texts) != len(labels):
            raise ValueError(f"there are {len(texts)} texts and {len(labels)} labels")
        rows = [(*t, y) if task == "pair" else (t, y) for t, y in zip(texts, labels)]
    return [row if isinstance(row, dict) else dict(zip(columns, row)) for row in rows]


@contextlib.contextmanager
def _as_file(task, rows):
    """A file with these rows, for as long as it is read; the name of one that is there already, as it is."""
    if rows is None or isinstance(rows, (str, os.PathLike)):
        yield "" if rows is None else os.fspath(rows)
        return
    import json

    with tempfile.TemporaryDirectory(prefix="bertie-") as folder:
        name = os.path.join(folder, "rows.jsonl")
        with open(name, "w", encoding="utf-8") as file:
            for record in _records(task, rows):
                file.write(json.dumps({k: _plain(v) for k, v in record.items()}) + "\n")
        yield name


def _set(job, options):
    for name, value in options.items():
        if name.startswith("_") or not hasattr(type(job), name):
            import difflib

            known = [n for n in dir(type(job)) if not n.startswith("_")]
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"there is no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        setattr(job, name, os.fspath(value) if isinstance(value, os.PathLike) else value)


def _named(model):
    return EMBEDDED if model is None else model.name if isinstance(model, TextModel) else os.fspath(model)


@contextlib.contextmanager
def _told(progress, on_step, desc):
    """on_step, and a bar over the run's steps where one is asked for."""
    with Progress(progress, desc) as bar:
        if bar is None:
            yield on_step
            return

        def step(p):
            bar(p.step, p.steps)
            if on_step is not None:
                on_step(p)

        yield step


class Finetuned:
    """A fine-tuned model: its folder, its scores on the dev rows, and, when it is asked for, the model itself."""

    def __init__(self, result: _bertie.FinetuneResult, folder: str, temporary=None):
        self.result, self.folder = result, folder
        self._model: Optional[TextModel] = None
        self._temporary = temporary  # a folder of our own is removed with this

    @property
    def model(self) -> TextModel:
        """The TextModel."""
        if self._model is None:
            self._model = load(self.folder)
        return self._model

    @property
    def scores(self) -> dict[str, float]:
        return {s.name: s.value for s in self.result.evaluation.scores}

    @property
    def evaluation(self) -> _bertie.Evaluation:
        return self.result.evaluation

    @property
    def seeds(self) -> list[_bertie.SeedResult]:
        return self.result.seeds

    @property
    def end(self) -> str:
        """'limit', 'stopped' or 'patience'."""
        return self.result.end

    def __repr__(self):
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items())
        return f"Finetuned({self.folder!r}, {scores})"


def finetune(
    task,
    train=None,
    dev=None,
    *,
    model=None,
    out=None,
    progress=None,
    on_step=None,
    on_evaluation=None,
    on_saved=None,
    on_plan=None,
    on_seed=None,
    on_note=None,
    on_warning=None,
    on_taught=None,
    on_baseline=None,
    stop=None,
    **options,
) -> Finetuned:
    """A model and a few labelled rows in; a classifier, tagger or answerer out (docs/finetuning.md).

    task: 'classify', 'pair', 'tag' or 'answer'. train and dev: a file in any format that docs/finetuning.md knows, a
    DataFrame, (texts, labels), or a list of tuples or dicts. model: what learning begins with; None: the model in the
    box. out: the folder to write; None: one that is removed with what is returned.

    on_step is told a TrainProgress after each step, on_evaluation an EvalResult; stop() may return True. What a
    function raises, and Ctrl-C, end the run after the step, with a checkpoint to resume from.
    """
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="bertie-")
        out = os.path.join(temporary.name, "model")
    job = _bertie.FinetuneJob()
    job.kind, job.out = task, os.fspath(out)
    if model is not None or not options.get("teacher"):
        job.model = _named(model)
    if "teacher" in options:
        options["teacher"] = _named(options["teacher"])
    unlabeled = options.pop("unlabeled", None)
    _set(job, options)
    with _as_file(task, train) as train_file, _as_file(task, dev) as dev_file, _as_file(task, unlabeled) as more:
        job.train_file, job.dev_file, job.unlabeled_file = train_file, dev_file, more
        with _told(progress, on_step, f"finetune {task}") as step:
            functions = {
                "on_step": step,
                "on_evaluation": on_evaluation,
                "on_saved": on_saved,
                "on_plan": on_plan,
                "on_seed": on_seed,
                "on_note": on_note,
                "on_warning": on_warning,
                "on_taught": on_taught,
                "on_baseline": on_baseline,
                "stop": stop,
            }
            result = _bertie.finetune(job, functions)
    return Finetuned(result, os.fspath(out), temporary)


def pretrain(
    data,
    out,
    *,
    progress=None,
    on_step=None,
    on_evaluation=None,
    on_saved=None,
    on_note=None,
    on_warning=None,
    stop=None,
    **options,
) -> _bertie.TrainResult:
    """A BERT from shards of text, which prepare() writes (docs/pretraining.md): a TrainResult.

    initial_model: a checkpoint whose weights are the start; else size ('tiny' … 'large') or config. Functions are as
    in finetune.
    """
    job = _bertie.PretrainJob()
    job.data, job.out = os.fspath(data), os.fspath(out)
    _set(job, options)
    with _told(progress, on_step, "pretrain") as step:
        functions = {
            "on_step": step,
            "on_evaluation": on_evaluation,
            "on_saved": on_saved,
            "on_note": on_note,
            "on_warning": on_warning,
            "stop": stop,
        }
        return _bertie.pretrain(job, functions)


def distill(teacher, task, train=None, dev=None, *, data=None, out=None, **options):
    """A smaller model that learns from a larger one (docs/distillation.md).

    task: as in finetune, with rows in `train`, and in `unlabeled` some that the teacher alone says something of; or
    'lm', with shards of text in `data`. depth: the student's layers, where it begins as some of its teacher's.
    """
    if task == "lm":
        return pretrain(data, out, teacher=_named(teacher), **options)
    return finetune(task, train, dev, out=out, teacher=teacher, **options)


class Evaluated:
    """How good a model is: scores by name, and the surest of its mistakes."""

    def __init__(self, evaluation: _bertie.Evaluation, mistakes: list[_bertie.Mistake]):
        self.evaluation, self.mistakes = evaluation, mistakes

    @property
    def scores(self) -> dict[str, float]:
        return {s.name: s.value for s in self.evaluation.scores}

    @property
    def rows(self) -> int:
        return self.evaluation.rows

    @property
    def classes(self) -> list[_bertie.ClassScore]:
        return self.evaluation.classes

    @property
    def labels(self) -> list[str]:
        return self.evaluation.labels

    @property
    def intervals(self):
        """Low and high of each score, where `resamples` asked for them."""
        return {s.name: (s.low, s.high) for s in self.evaluation.scores}

    @property
    def confusion(self):
        """(labels, labels): rows are right, columns predicted."""
        import numpy

        count = len(self.labels)
        return numpy.array(self.evaluation.confusion).reshape(-1, count) if count else None

    def __getitem__(self, name):
        return self.scores[name]

    def __repr__(self):
        return f"Evaluated({self.rows} rows, " + ", ".join(f"{n} {v:.4f}" for n, v in self.scores.items()) + ")"


def evaluate(model, data, task=None, *, progress=None, **options):
    """How good a model is on labelled data, counted as the official scorers count (docs/evaluation.md).

    data: as in finetune; of task 'lm', shards of text, and then the result is a LanguageModelScores. task: None: what
    the model's head is for, of labels 'classify' and not 'pair'. resamples: of the bootstrap, for intervals. mistakes: how many of the surest to give back.
    """
    if task == "lm":
        job = _bertie.LanguageModelJob()
        job.model, job.data = _named(model), os.fspath(data)
        _set(job, options)
        with Progress(progress, "evaluate") as told:
            return _bertie.evaluate_language_model(job, told)
    if not isinstance(model, TextModel):
        model = load(model)
    if task is None:
        task = next((t for head, t in _TASKS.items() if model.can(head)), "classify")
    job = _bertie.EvaluateJob()
    job.kind = task
    _set(job, options)
    with _as_file(task, data) as job.file, Progress(progress, "evaluate") as told:
        return Evaluated(*_bertie.evaluate(model._model, job, told))


def learn_vocabulary(texts, out="", *, progress=None, **options) -> list[str]:
    """A WordPiece vocabulary of files of text (docs/data.md): its tokens, and a vocab.txt where `out` names one."""
    with Progress(progress, "vocabulary") as told:
        return _bertie.learn_vocabulary(_files(texts), os.fspath(out), progress=told, **options)


def prepare(texts, out, tokenizer, *, progress=None, **options) -> dict:
    """Files of text to shards of tokens, which pretrain reads (docs/data.md): a dict of what they hold."""
    import json

    with Progress(progress, "prepare") as told:
        return json.loads(_bertie.prepare(_files(texts), os.fspath(out), _named(tokenizer), progress=told, **options))


def _files(texts):
    return [os.fspath(t) for t in ([texts] if isinstance(texts, (str, os.PathLike)) else texts)]
