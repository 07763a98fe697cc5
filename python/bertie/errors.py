"""bertie.Error from Python."""

from __future__ import annotations

from ._bertie import Error  # type: ignore[attr-defined]  # an exception, which nanobind says nothing of


def error(message: str, hint: str = "", field: str = "") -> Error:
    """An Error as the library makes them: what is wrong and why, what to try, the argument at fault."""
    made = Error(f"{message}\n  try: {hint}" if hint else message)
    made.message, made.hint, made.field = message, hint, field
    return made
