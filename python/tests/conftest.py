"""Models that tests run on. What is not there is skipped, and the reason says what it would take."""

import os
import signal
from pathlib import Path

import pytest

# A shell lets what it starts in the background ignore Ctrl-C, and Python leaves that so: the tests of Ctrl-C would wait.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def _data():
    for folder in (os.environ.get("BERTIE_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    return None


@pytest.fixture(scope="session")
def minilm():
    folder = _data() and _data() / "models" / "all-MiniLM-L6-v2"
    if not folder or not folder.is_dir():
        pytest.skip("needs all-MiniLM-L6-v2 in $BERTIE_DATA/models")
    return str(folder)


@pytest.fixture(scope="session")
def bert_base():
    folder = os.environ.get("BERTIE_BERT_BASE")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs bert-base-uncased, a folder named by $BERTIE_BERT_BASE")
    return folder


@pytest.fixture(scope="session")
def golden():
    if not GOLDEN.is_dir():
        pytest.skip("needs the repository's tests/golden")
    return GOLDEN


@pytest.fixture(scope="session")
def box():
    """The model in the box."""
    import bertie

    return bertie.load()
