"""Fine-tuning, pre-training, distillation and evaluation, with functions that are told how it goes.

Every option of include/bertie/finetune.h, train.h and evaluate.h is an argument by the name that it has there.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Union, overload

from . import _bertie
from .errors import error
from .inputs import as_list
from .progress import Progress
from .text_model import EMBEDDED, TextModel, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from .text_model import Progress as Bar

Task = Literal["classify", "pair", "tag", "answer"]
Rows = Any  # a file's name, a DataFrame, (texts, labels), a list of tuples or dicts
Told = Optional[Callable[..., object]]
Path = Union[str, "os.PathLike[str]"]
Model = Union[None, str, "os.PathLike[str]", TextModel]

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


def _records(task, rows, labeled=True):
    """Rows as dicts: of a DataFrame, of (texts, labels), of tuples, of dicts; without labels also of texts alone."""
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        return rows.to_dict(orient="records")
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    columns = _COLUMNS[task]
    if labeled and isinstance(rows, tuple) and len(rows) == 2 and not isinstance(rows[0], (str, dict)):
        texts, labels = as_list(rows[0]), as_list(rows[1])
        if len(texts) != len(labels):
            raise ValueError(f"there are {len(texts)} texts and {len(labels)} labels")
        rows = [(*t, y) if task == "pair" else (t, y) for t, y in zip(texts, labels)]
    return [_record(i, row, columns, labeled, task) for i, row in enumerate(rows)]


def _record(i, row, columns, labeled, task):
    if isinstance(row, dict):
        return row
    if not labeled:
        if isinstance(row, str) or (task == "tag" and not isinstance(row, tuple)):
            row = (row,)
        if len(row) == len(columns) - 1:
            columns = columns[:-1]
    if isinstance(row, str) or len(row) != len(columns):
        what = "one text" if isinstance(row, str) else f"{len(row)} values"
        raise ValueError(f"row {i} is {what}; of {task} a row is ({', '.join(columns)})")
    return dict(zip(columns, row))


@contextlib.contextmanager
def _as_file(task, rows, labeled=True):
    """A file with these rows, for as long as it is read; the name of one that is there already, as it is."""
    if rows is None or isinstance(rows, (str, os.PathLike)):
        yield "" if rows is None else os.fspath(rows)
        return
    import json

    with tempfile.TemporaryDirectory(prefix="bertie-") as folder:
        name = os.path.join(folder, "rows.jsonl")
        with open(name, "w", encoding="utf-8") as file:
            for record in _records(task, rows, labeled):
                file.write(json.dumps({k: _plain(v) for k, v in record.items()}) + "\n")
        yield name


# What others call our options.
_CALLED_HERE = {
    "optimizer": "method",
    "optim": "method",
    "lr": "rate",
    "learning_rate": "rate",
    "batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "gradient_accumulation_steps": "accumulate",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "weight_decay": "decay",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
    "lr_scheduler_type": "schedule",
    "max_grad_norm": "clip",
    "label_smoothing_factor": "label_smoothing",
    "max_seq_length": "max_length",
    "output_dir": "out",
    "random_state": "seed",
    "n_jobs": "threads",
    "num_threads": "threads",
    "from_model": "initial_model",
}


_SAID = {"int": "a whole number", "float": "a number", "str": "a str", "bool": "True or False"}  # types, in words


def _set(job, options):
    for name, value in options.items():
        if name.startswith("_") or not hasattr(type(job), name):
            import difflib

            known = [n for n in dir(type(job)) if not n.startswith("_")]
            here = _CALLED_HERE.get(name)
            near = [here] if here in known else difflib.get_close_matches(name, known, 1)
            raise TypeError(f"there is no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        _assign(job, name, name, os.fspath(value) if isinstance(value, os.PathLike) else value)


def _assign(job, member, name, value):
    """Sets a member; what it does not take is a TypeError that says what it does, by the argument's name."""
    try:
        setattr(job, member, value)
    except TypeError as wrong:
        import re

        takes = re.search(r"arg: (.*), /\) -> None", str(wrong))
        if takes is None:
            raise
        words = re.findall(r"'[^']*'", takes[1]) or re.split(r" \| ", takes[1])
        said = " or ".join(_SAID.get(word, word) for word in words)
        if said.startswith("a whole") and isinstance(value, int):
            said = said.replace("number", "number from 0 on")
        raise TypeError(f"{name} takes {said}, not {value!r}") from None


def _named(model):
    return EMBEDDED if model is None else model.name if isinstance(model, TextModel) else os.fspath(model)


@contextlib.contextmanager
def _told(progress, functions, desc, runs=1):
    """The functions, and a bar over the steps of all runs where one is asked for."""
    with Progress(progress, desc) as bar:
        if bar is None:
            yield functions
            return
        run = 0

        def begun(index):
            nonlocal run
            run = index
            if functions.get("on_seed_begun") is not None:
                functions["on_seed_begun"](index)

        def step(p):
            bar(run * p.steps + p.step, runs * p.steps)
            if functions["on_step"] is not None:
                functions["on_step"](p)

        yield {**functions, "on_step": step, "on_seed_begun": begun}


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
    task: Task,
    train: Rows = None,
    dev: Rows = None,
    *,
    model: Model = None,
    out: Optional[Path] = None,
    progress: Bar = None,
    on_step: Told = None,
    on_evaluation: Told = None,
    on_saved: Told = None,
    on_plan: Told = None,
    on_seed_begun: Told = None,
    on_seed: Told = None,
    on_note: Told = None,
    on_warning: Told = None,
    on_taught: Told = None,
    on_baseline: Told = None,
    on_baseline_done: Told = None,
    on_bad_row: Told = None,
    stop: Told = None,
    **options: Any,
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
    _assign(job, "kind", "task", task)
    job.out = os.fspath(out)
    if model is not None or not options.get("teacher"):
        job.model = _named(model)
    if "teacher" in options:
        options["teacher"] = _named(options["teacher"])
    unlabeled = options.pop("unlabeled", None)
    if train is None and unlabeled is None:
        raise error("there is nothing to learn from", f"finetune({task!r}, rows), or a file's name", "train")
    _set(job, options)
    with contextlib.ExitStack() as files:
        job.train_file = files.enter_context(_as_file(task, train))
        job.dev_file = files.enter_context(_as_file(task, dev))
        job.unlabeled_file = files.enter_context(_as_file(task, unlabeled, labeled=False))
        functions = {
            "on_step": on_step,
            "on_evaluation": on_evaluation,
            "on_saved": on_saved,
            "on_plan": on_plan,
            "on_seed_begun": on_seed_begun,
            "on_seed": on_seed,
            "on_note": on_note,
            "on_warning": on_warning,
            "on_taught": on_taught,
            "on_baseline": on_baseline,
            "on_baseline_done": on_baseline_done,
            "on_bad_row": on_bad_row,
            "stop": stop,
        }
        with _told(progress, functions, f"finetune {task}", job.seeds) as told:
            result = _bertie.finetune(job, told)
    return Finetuned(result, os.fspath(out), temporary)


def pretrain(
    data: Path,
    out: Path,
    *,
    progress: Bar = None,
    on_step: Told = None,
    on_evaluation: Told = None,
    on_saved: Told = None,
    on_note: Told = None,
    on_warning: Told = None,
    stop: Told = None,
    **options: Any,
) -> _bertie.TrainResult:
    """A BERT from shards of text, which prepare() writes (docs/pretraining.md): a TrainResult.

    initial_model: a checkpoint whose weights are the start; else size ('tiny' … 'large') or config. Functions are as
    in finetune.
    """
    job = _bertie.PretrainJob()
    job.data, job.out = os.fspath(data), os.fspath(out)
    _set(job, options)
    functions = {
        "on_step": on_step,
        "on_evaluation": on_evaluation,
        "on_saved": on_saved,
        "on_note": on_note,
        "on_warning": on_warning,
        "stop": stop,
    }
    with _told(progress, functions, "pretrain") as told:
        return _bertie.pretrain(job, told)


@overload
def distill(teacher: Model, task: Literal["lm"], *, data: Path, out: Path, **options: Any) -> _bertie.TrainResult: ...
@overload
def distill(
    teacher: Model, task: Task, train: Rows = None, dev: Rows = None, *, out: Optional[Path] = None, **options: Any
) -> Finetuned: ...
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
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Low and high of each score, where `resamples` asked for them."""
        return {s.name: (s.low, s.high) for s in self.evaluation.scores}

    @property
    def confusion(self) -> Optional[NDArray]:
        """(labels, labels): rows are right, columns predicted."""
        import numpy

        count = len(self.labels)
        return numpy.array(self.evaluation.confusion).reshape(-1, count) if count else None

    def __getitem__(self, name: str) -> float:
        return self.scores[name]

    def __repr__(self):
        return f"Evaluated({self.rows} rows, " + ", ".join(f"{n} {v:.4f}" for n, v in self.scores.items()) + ")"


@overload
def evaluate(
    model: Model, data: Path, task: Literal["lm"], *, progress: Bar = None, **options: Any
) -> _bertie.LanguageModelScores: ...
@overload
def evaluate(
    model: Model,
    data: Rows,
    task: Optional[Task] = None,
    *,
    progress: Bar = None,
    on_bad_row: Told = None,
    **options: Any,
) -> Evaluated: ...
def evaluate(model, data, task=None, *, progress=None, on_bad_row=None, **options):
    """How good a model is on labelled data, counted as the official scorers count (docs/evaluation.md).

    data: as in finetune; of task 'lm', shards of text, and then the result is a LanguageModelScores. task: None: what
    the model's head is for, of labels 'classify' and not 'pair'. resamples: of the bootstrap, for intervals. mistakes:
    how many of the surest to give back.
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
    _assign(job, "kind", "task", task)
    _set(job, options)
    with _as_file(task, data) as job.file, Progress(progress, "evaluate") as told:
        return Evaluated(*_bertie.evaluate(model._model, job, told, {"on_bad_row": on_bad_row}))


def learn_vocabulary(
    texts: Union[Path, Iterable[Path]],
    out: Path = "",
    *,
    from_model: Model = None,
    progress: Bar = None,
    **options: Any,
) -> list[str]:
    """A WordPiece vocabulary of files of text (docs/data.md): its tokens, and a vocab.txt where `out` names one.

    from_model: instead of learning, of this model's tokens those that the texts need most. on_warning is told of files
    and lines that cannot be read; with strict they are an Error.
    """
    if from_model is not None:
        options["from_model"] = _named(from_model)
    with Progress(progress, "vocabulary") as told:
        return _bertie.learn_vocabulary(_files(texts), os.fspath(out), progress=told, **options)


def prepare(
    texts: Union[Path, Iterable[Path]], out: Path, tokenizer: Model, *, progress: Bar = None, **options: Any
) -> dict[str, Any]:
    """Files of text to shards of tokens, which pretrain reads (docs/data.md): a dict of what they hold."""
    import json

    with Progress(progress, "prepare") as told:
        return json.loads(_bertie.prepare(_files(texts), os.fspath(out), _named(tokenizer), progress=told, **options))


def _files(texts):
    return [os.fspath(t) for t in ([texts] if isinstance(texts, (str, os.PathLike)) else texts)]
