"""Where from_pretrained finds a model: a folder, a model that is part of Bertie, the hub's cache, the hub."""

from __future__ import annotations

import json
import os

from . import _bertie
from .text_model import EMBEDDED


def resolve(name=None, *, revision=None, local_files_only=False):
    """What the library loads. As with transformers, a model that is not in the cache is downloaded."""
    if name is None:
        return EMBEDDED
    name = os.fspath(name)
    if os.path.isdir(name) or name in _bertie.embedded_models():
        return name
    wanted = f"{name}@{revision}" if revision else name
    try:
        return _bertie.find_model(wanted)
    except _bertie.Error:
        if local_files_only or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise
        return _bertie.pull(wanted)


def read_json(files, name):
    """A JSON file of a model's; {} where there is none."""
    text = _bertie.read_model_file(files, name)
    return json.loads(text) if text else {}
