"""Which backend runs a model: our own engine where it can, llama.cpp in a child process otherwise."""

from __future__ import annotations

from collections.abc import Callable

from engine.backend import Backend
from engine.backends.llama_cpp.backend import CompatibilityBackend
from engine.errors import UnsupportedError
from engine.messages import Event, LoadOptions, Notice
from engine.native_loading import load_native


def load_backend(
    path: str,
    options: LoadOptions,
    emit: Callable[[Event], None],
    progress: Callable[[float, str], None],
    replaced: Backend | None = None,
) -> Backend:
    """A backend ready to answer. `replaced` is the one that will be closed once the new one is there.

    "auto" takes the compatibility engine for what our own engine names as unsupported, and for nothing else.
    """
    if options.engine == "compatibility":
        return CompatibilityBackend.load(path, options, emit, progress)
    freed = replaced.held_bytes if replaced is not None else 0
    try:
        return load_native(path, options, emit, progress, freed)
    except UnsupportedError as unsupported:
        if options.engine == "native":
            raise
        reason = unsupported.cause
    backend = CompatibilityBackend.load(path, options, emit, progress)
    emit(Notice(reason, "It runs on the compatibility engine: placement is per layer."))
    return backend
