"""How a module of ours is run in a process of its own: by `python -m` from source, by a first argument in the bundle.

A bundle has no Python to start but its own program, whose entry (installer/entry.py) hands such a start to `run_child`.
"""

from __future__ import annotations

import runpy
import sys

CHILD = "--child"
MODULES = frozenset(
    {
        "engine.text.vocabulary_child",
        "engine.text.template_worker",
        "engine.text.grammar_worker",
        "engine.backends.llama_cpp",
        "engine.hub.transfer_child",
    }
)


def is_bundled() -> bool:
    return bool(getattr(sys, "frozen", False))


def child_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs one of MODULES with `arguments`."""
    if module not in MODULES:
        raise ValueError(f"{module} is not meant to be run in a process of its own")
    start = [sys.executable, CHILD] if is_bundled() else [sys.executable, "-P", "-m"]
    return [*start, module, *arguments]


def run_child(arguments: list[str]) -> None:
    """In the child: run the module that `arguments` begin with, as `python -m` would."""
    module, *rest = arguments
    if module not in MODULES:
        raise SystemExit(2)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
