"""What the engine says to people: every text of its source that may reach the screen, with {} for values."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator
from pathlib import Path

import app
import engine

ROOT = Path(engine.__file__).parent
# Said by parts of the window that know no language: they are free of Qt, or run before it.
_EARLY = ("settings/values.py", "settings/table.py", "chat/parameters/presets.py")
_FREE_OF_QT = (
    "chat/attachments.py",
    "chat/conversation_actions.py",
    "chat/exchange.py",
    "chat/parameters/json_schema.py",
    "export_file.py",
    "library/hub_services.py",
    "store/schema.py",
    "store/store_thread.py",
)
_CATALOGUE = Path(app.__file__).parent.parent / "assets" / "catalogue.json"
# Said in the terminal alone, to llama.cpp, or by one process of ours to another.
_TERMINAL = (
    "benchmark",
    "backends/llama_cpp/__main__.py",
    "backends/llama_cpp/framing.py",
    "backends/llama_cpp/process.py",
    "gguf/describe_text.py",
    "gguf/split.py",
    "hub/catalogue.py",
    "hub/starter.py",
    "placement/arguments.py",
    "placement/report.py",
    "placement/report_format.py",
    "placement/shape_source.py",
    "text/fallback_formats.py",
    "text/grammar_worker.py",
    "text/llama_library.py",
    "text/vocabulary_child.py",
)
# Programming errors, patterns, names of threads: nobody but a developer sees them.
_INTERNAL = {"ValueError", "IndexError", "KeyError", "RuntimeError", "compile", "Thread", "startswith"}
# Not words for people: product names, texts of other programs that are looked for, names in a trace.
_NO_WORDS = frozenset(
    {
        "Ryzen 7 5800X",
        "RTX 3060 12GB",
        "SmolLM2 135M Instruct",
        "Invalid credentials",
        "Name or service not known",
        "name resolution",
        "unknown pre-tokenizer type: '",
        "unknown tokenizer: '",
        "unknown model architecture: '",
        "error loading model: ",
        "cancel download",
        "Tessera hub token",
        "Bearer {}",
        r"type (\d+)(?: \(([A-Z\d_]+))?",
        "compatibility engine",
    }
)
# Spans of a trace, the simulator's tasks, and what a cache says when it is inconsistent.
_NO_WORDS_IN = (
    "memory/kv_pool.py",
    "placement/simulator.py",
    "placement/rivals.py",
    "runtime/devices/memory.py",
    "runtime/executor.py",
    "runtime/hybrid.py",
    "runtime/promotion.py",
    "runtime/schedule.py",
    "runtime/work.py",
)


def engine_texts() -> list[str]:
    """All of them, sorted; what the curated catalogue says of its models among them."""
    said = {text for path in _files() for text in _texts(path) if _is_shown(path, text)}
    early = {text for name in _EARLY for text in _texts(Path(app.__file__).parent / name) if "{}" in text}
    catalogue = {model["why"] for model in json.loads(_CATALOGUE.read_text("utf-8"))["models"]}
    files = [Path(app.__file__).parent / name for name in _FREE_OF_QT]
    window = {text for path in files for text in _texts(path, ()) if _is_sentence(text)}
    return sorted(said | {text for text in early if text.endswith((".", "{}."))} | window | catalogue)


def _files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(_TERMINAL):
            yield path


def _is_sentence(text: str) -> bool:
    """What an error says; not a setting's name, a grammar, SQL or a text that is translated where it stands."""
    is_code = any(mark in text for mark in ("::=", "ws ", "--"))
    if is_code or " " not in text.strip() or sum(map(str.isalpha, text)) <= 3:
        return False
    return text.endswith(".") or text.startswith(("{} ", "“{}", "it is ", "the ", "two ", "a ", "version "))


def _is_shown(path: Path, text: str) -> bool:
    """Sentences everywhere; pieces of sentences where pieces are for people at all."""
    letters = sum(character.isalpha() for character in text)
    if " " not in text.strip() or letters <= 3 or text in _NO_WORDS:
        return False
    return text[-1] in ".…" or not path.relative_to(ROOT).as_posix().startswith(_NO_WORDS_IN)


def _texts(path: Path, internal: Collection[str] = _INTERNAL) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _skipped(tree, internal)
    for node in ast.walk(tree):
        if id(node) not in skipped and (text := _template(node)):
            yield text


def _skipped(tree: ast.AST, internal: Collection[str]) -> set[int]:
    """Docstrings, parts of a larger string, arguments of what only developers see."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        inner: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner = [node.value]
        elif isinstance(node, ast.JoinedStr):
            inner = [part for part in ast.walk(node) if part is not node and not _is_nested_text(part, node)]
        elif isinstance(node, ast.Assert) and node.msg is not None:
            inner = list(ast.walk(node.msg))
        elif isinstance(node, ast.Call) and _name(node.func) in internal:
            inner = [part for argument in node.args for part in ast.walk(argument)]
        skipped |= {id(part) for part in inner}
    return skipped


def _is_nested_text(part: ast.AST, whole: ast.JoinedStr) -> bool:
    """A text inside a value of an f-string, such as `{"one" if … else "two"}`."""
    return isinstance(part, ast.Constant | ast.JoinedStr) and part not in whole.values


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""
