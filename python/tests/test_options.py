"""What the library can be asked for, and what it answers, Python has too: the public headers say what that is."""

import inspect
import re

import pytest
from conftest import ROOT

import bertie
from bertie import _bertie

HEADERS = ROOT / "include" / "bertie"
pytestmark = pytest.mark.skipif(not HEADERS.is_dir(), reason="needs the repository's include/bertie")


def members(struct):
    """The names of a struct's members, and of those of the struct that it is made from."""
    text = re.sub(r"//[^\n]*", "", "".join(path.read_text() for path in sorted(HEADERS.glob("*.h"))))
    (found,) = re.finditer(rf"^struct (?:BERTIE_API )?{struct}(?: : (\w+))? {{\n(.*?)\n}};", text, re.S | re.M)
    names = members(found[1]) if found[1] else []
    for statement in found[2].split(";"):
        statement = re.sub(r"<.*>|{[^{}]*}", "", statement, flags=re.S)  # types' arguments, values
        if statement.strip() and "(" not in statement:
            names += [part.split("=")[0].split()[-1] for part in statement.split(",")]
    return names


# What Python calls otherwise; parts of jobs, whose members are the job's own there; and what means nothing there.
OTHERWISE = {("PretrainJob", "from"): "initial_model", ("Teaching", "layers"): "teacher_layers"}
PARTS = {
    *((job, part) for job in ("FinetuneJob", "PretrainJob") for part in ("train", "teaching")),
    ("FinetuneJob", "data"),
}
LEFT_OUT = {
    "bad_row",  # the function on_bad_row
    "labels_needed",  # without labels nothing is learned, and nothing can be counted
    "places_needed",  # as the task wants
    "progress",
    "rank",  # of several processes
}


@pytest.mark.parametrize(
    ("job", "structs"),
    [
        ("FinetuneJob", ["FinetuneJob", "TrainOptions", "Teaching", "DatasetOptions"]),
        ("PretrainJob", ["PretrainJob", "TrainOptions", "Teaching"]),
        ("LanguageModelJob", ["LanguageModelJob"]),
        ("EvaluateJob", ["PredictOptions", "ScoreOptions", "DatasetOptions"]),
    ],
)
def test_every_option_of_a_job_can_be_set(job, structs):
    made = getattr(_bertie, job)()
    for struct in structs:
        for name in members(struct):
            if name not in LEFT_OUT and (struct, name) not in PARTS:
                name = OTHERWISE.get((struct, name), name)
                setattr(made, name, getattr(made, name))


RESULTS = """TrainOptions TrainProgress Metric Watched EvalResult TrainResult LanguageModelScores SeedResult FinetunePlan
FinetuneResult BaselineResult Evaluation ClassScore NamedScore Mistake Quantized EmbeddedRow Fill MaskFilling NextSentence
TokenScore TextScore Scored Classification Entity Tagging Answer Answering Generation""".split()


@pytest.mark.parametrize("struct", RESULTS)
def test_every_member_of_a_result_can_be_read(struct):
    names = set(members(struct)) - LEFT_OUT
    assert names and names <= set(dir(getattr(_bertie, struct)))


def test_a_function_can_be_told_of_every_event():
    told = {
        "progress": "on_step",
        "evaluated": "on_evaluation",
        "saved": "on_saved",
        "note": "on_note",
        "warning": "on_warning",
        "stop": "stop",
        "planned": "on_plan",
        "taught": "on_taught",
        "seed_begun": "on_seed_begun",
        "seed_done": "on_seed",
        "baseline": "on_baseline",
        "baseline_done": "on_baseline_done",
    }
    for call, events in ((bertie.pretrain, "TrainEvents"), (bertie.finetune, "FinetuneEvents")):
        wanted = {told[event] for event in members(events) if event != "failed"}  # of several processes
        assert wanted <= set(inspect.signature(call).parameters)
