"""How far a long call is, by tqdm's convention."""

from __future__ import annotations

import sys
import time


class _Line:
    """A line on standard error, where tqdm is not installed."""

    def __init__(self, total, desc=""):
        self._total, self._desc, self._done, self._shown = total, desc, 0, 0.0

    def update(self, more):
        self._done += more
        if time.monotonic() - self._shown > 0.2 or self._done == self._total:
            self._shown = time.monotonic()
            of = f"/{self._total}" if self._total else ""
            print(f"\r{self._desc}: {self._done}{of}", end="", file=sys.stderr, flush=True)

    def close(self):
        print(file=sys.stderr)


def _bar_class():
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line
    return tqdm


class Progress:
    """What `progress` asks for, as a function of (done, total): `with Progress(progress, "embed") as told: …`.

    progress: None or False; True for a bar of tqdm's; a class like tqdm's, called with total and desc; a bar that is
    there already, with update(); or a function of (done, total). The function is None where nothing is asked for.
    """

    def __init__(self, progress, desc):
        self._progress, self._desc = progress, desc
        self._bar, self._done, self._ours = None, 0, False

    def __enter__(self):
        wanted = self._progress
        if wanted is None or wanted is False:
            return None
        if wanted is True:
            self._progress = _bar_class()
        elif hasattr(wanted, "update") and not isinstance(wanted, type):
            self._bar = wanted
        elif not isinstance(wanted, type):
            return wanted
        return self._told

    def _told(self, done, total):
        if self._bar is None:
            self._bar, self._ours = self._progress(total=total or None, desc=self._desc), True  # 0: nobody knows
        if total and getattr(self._bar, "total", total) != total:
            self._bar.total = total
        self._bar.update(done - self._done)
        self._done = done

    def __exit__(self, *_):
        if self._ours:
            self._bar.close()
