"""What can go wrong with the conversations file."""

from __future__ import annotations

from engine.errors import EngineError


class StoreError(EngineError):
    """The conversations file cannot be used as it is; says what was done and what to do."""
