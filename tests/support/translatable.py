"""Every string that is shown and must have a translation: found in the source, not remembered."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import app
from app.chat.parameters.presets import BUILT_IN
from app.chat.parameters.table import PARAMETERS
from app.placement.map_lines import HEADS, PLACE_WORDS
from app.placement.memory_parts import Purpose
from app.settings.table import SETTINGS
from app.telemetry.history import Trace
from engine.hub.download_status import State
from engine.hub.library import EntryState
from engine.hub.places import ADDED, HUB_CACHE, IMPORTED, INSTALLATION

ROOT = Path(app.__file__).parent
COLUMNS = ("Name", "Family", "Size", "Quantisation", "Context", "State", "Last used")  # of the library's table


def strings() -> list[str]:
    """All of them, sorted."""
    return sorted({*_in_calls(), *_in_tables()})


def calls_without_literals() -> list[str]:
    """Calls of tr() whose text is computed: each must be covered by `_in_tables` or the file's own table."""
    return [f"{path.relative_to(ROOT)}: {ast.unparse(node)}" for path, node in _calls() if not _literal(node)]


def _in_tables() -> Iterator[str]:
    for setting in SETTINGS:
        if setting.shown:
            yield from (setting.title, setting.help, setting.group, setting.zero)
            yield from (words for _, words in setting.choices)
    for parameter in PARAMETERS:
        yield from (parameter.title, parameter.help, parameter.group)
        yield from (words for _, words in parameter.choices)
        if parameter.off is not None:
            yield parameter.off[1]
    yield from BUILT_IN
    yield from (state.value for state in (*State, *EntryState))
    yield from COLUMNS
    yield from (ADDED, HUB_CACHE, IMPORTED, INSTALLATION)
    yield from (*PLACE_WORDS.values(), *HEADS, *(named.value for named in (*Purpose, *Trace)))


def _in_calls() -> Iterator[str]:
    for _, node in _calls():
        if text := _literal(node):
            yield text


def _calls() -> Iterator[tuple[Path, ast.Call]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tr" and node.args:
                yield path, node


def _literal(node: ast.Call) -> str:
    return _text(node.args[0])


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
