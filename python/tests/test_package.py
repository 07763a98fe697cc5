"""The package as people get it: its stubs, what it imports, a wheel in an empty environment."""

import ast
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import bertie

PACKAGE = Path(bertie.__file__).parent


def stub_names(name):
    """What a stub defines or imports."""
    names = set()
    for node in ast.parse((PACKAGE / name).read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def test_stubs_name_what_there_is():
    from bertie import pretrained, tokenization

    classes = {name for name in dir(tokenization) if "Tokenizer" in name}
    assert classes <= stub_names("tokenization.pyi")
    assert set(pretrained.__all__) <= stub_names("pretrained.pyi")
    public = stub_names("__init__.pyi")
    assert set(pretrained.__all__) | set(bertie._LATER) | {"load", "Error"} <= public
    pytest.importorskip("sklearn")
    for name in public:
        assert hasattr(bertie, name), name


def test_a_type_checker_agrees(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(
        "import bertie\n"
        "model = bertie.load()\n"
        "token: str = model.fill_mask('a').masks[0][0].token\n"
        "score: float = model.classify(['a'])[0].score\n"
        "found: str = bertie.Index('library').search('a')[0].text\n"
        "f1: float = bertie.evaluate(model, 'dev.csv').scores['f1']\n"
        "bits: float = bertie.evaluate(model, 'shards', 'lm').bits_per_byte\n"
        "bertie.BertClassifier(epochs=3).fit(['a'], [1]).predict(['a'])\n"
        "bertie.attention([[1.0]], [[1.0]], [[1.0]], causal=True)\n"
        "made: bertie.BertModel = bertie.BertModel.from_pretrained()\n"
        "model.tag('a', aggregation='sideways')  # wrong\n"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--follow-imports=silent",
            "--cache-dir",
            str(tmp_path),
            str(script),
        ],
        capture_output=True,
        text=True,
        # mypy finds what is installed by itself, and refuses to be told.
        env=os.environ if PACKAGE.parent.name == "site-packages" else {**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )
    errors = [line for line in ran.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1 and "script.py:11" in errors[0], ran.stdout + ran.stderr


def test_importing_bertie_imports_nothing_large():
    code = "import bertie, sys; print(*{'numpy', 'torch', 'pandas', 'sklearn', 'tqdm', 'pathlib'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == []


def test_a_wheel_in_an_empty_environment(tmp_path):
    wheel = os.environ.get("BERTIE_WHEEL")
    if not wheel:
        pytest.skip("needs a wheel, named by $BERTIE_WHEEL; make test-python has one")
    venv.create(tmp_path / "empty", with_pip=True)
    python = str(tmp_path / "empty" / "bin" / "python")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True, env=clean, cwd=tmp_path)
    code = (
        "import bertie; m = bertie.load(); print(m.embed('hello').shape, m.attend('hi').weights.shape[0]); "
        "from bertie import BertTokenizer, BertModel; t = BertTokenizer.from_pretrained(); "
        "print(BertModel.from_pretrained()(**t('You found me.', return_tensors='np'), output_attentions=True)"
        ".attentions[0].shape)"
    )
    out = subprocess.check_output([python, "-c", code], text=True, env=clean, cwd=tmp_path)
    assert out.split("\n")[:2] == ["(256,) 6", "(1, 8, 6, 6)"]
    files = subprocess.check_output([python, "-m", "pip", "show", "-f", "bertie"], text=True, env=clean)
    for name in ("bertie/py.typed", "bertie/_bertie.pyi", "bertie/__init__.pyi"):
        assert name in files

    # Of the system it needs what every Linux has; all else lies beside it.
    module = subprocess.check_output([python, "-c", "from bertie import _bertie; print(_bertie.__file__)"], text=True)
    folder = str(Path(module.strip()).parent)
    for line in subprocess.check_output(["ldd", module.strip()], text=True).splitlines():
        name, _, found = line.strip().partition(" => ")
        system = re.match(r"(/lib.*/)?(ld-linux|linux-vdso|libc\.|libm\.|libstdc\+\+|libgcc_s|libdl|libpthread)", name)
        assert system or found.startswith(folder), line
