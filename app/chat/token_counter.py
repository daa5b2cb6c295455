"""Counts tokens before anything is sent, with the loaded model's own tokenizer, off the main thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from app.background import Background
from app.model_controller import ModelController


class TokenCounter:
    """One tokenizer is kept; another model's takes its place."""

    def __init__(self, models: ModelController, background: Background) -> None:
        self._models = models
        self._background = background
        self._lock = threading.Lock()
        self._path = ""
        self._tokenizer: Any = None

    def count(self, text: str, on_done: Callable[[int | None], None]) -> None:
        """Tokens of `text` for the loaded model; None without one."""
        info = self._models.info
        if info is None:
            on_done(None)
            return
        path = info.path
        self._background.run_in_background(lambda: self._count(path, text), on_done, lambda _error: on_done(None))

    def _count(self, path: str, text: str) -> int:
        with self._lock:
            if self._path != path:
                from engine.text.tokenizer import Tokenizer

                self._tokenizer, self._path = Tokenizer.load(path), path
            return len(self._tokenizer.encode(text, add_special=False, parse_special=False))
