"""Whether the native kernels are here, and are those that this source was written against."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import kernels
from engine.child_process import is_bundled
from engine.errors import EngineError

MODULE = "kernels._cpu"
STUB = Path(str(kernels.__file__)).parent / "_cpu.pyi"


class NativeBuildError(EngineError):
    """The native kernels are missing, cannot be loaded, or are of another version than the source."""


def check_native_build() -> None:
    """Load the kernels; some milliseconds. Raises NativeBuildError.

    From source they are held against their stub, kernels/_cpu.pyi, which a build of older sources does not fulfil.
    """
    remedy = "Install Tessera again." if is_bundled() else "Run `make run`, which builds them."
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        raise NativeBuildError(f"Tessera's native kernels cannot be loaded: {error}.", remedy=remedy) from error
    missing = missing_names(module, STUB.read_text(encoding="utf-8")) if STUB.is_file() else []  # not in the bundle
    if missing:
        names = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
        raise NativeBuildError(f"Tessera's native kernels are older than its source: they lack {names}.", remedy=remedy)


def missing_names(module: object, stub: str) -> list[str]:
    """What the stub declares and `module` lacks: functions, values, classes and their methods."""
    missing = []
    for node in ast.parse(stub).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                missing += [] if hasattr(module, name) else [name]
            case ast.ClassDef(name=name):
                kind = getattr(module, name, None)
                methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
                lacking = [f"{name}.{method}" for method in methods if not hasattr(kind, method)]
                missing += [name] if kind is None else lacking
    return missing
