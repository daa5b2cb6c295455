"""Reading a model's numbers out of GGUF metadata, whichever mapping holds it, with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import FormatError


class HeaderKeys:
    """Keys of one architecture: `integer("block_count")` reads `<architecture>.block_count`."""

    def __init__(self, metadata: Mapping[str, Any], source: str) -> None:
        self._metadata = metadata
        self.source = source
        self.architecture = self.text("general.architecture", "")
        if not self.architecture:
            raise FormatError(f"{source} lacks the metadata key general.architecture.")

    def text(self, key: str, default: str) -> str:
        value = self._metadata.get(key, default)
        return value if isinstance(value, str) else default

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self._metadata

    def integer(self, key: str, default: int | None = None, *, low: int = 0, high: int = 1 << 31) -> int:
        value = self._value(key, default)
        return self._checked(key, value, low, high)

    def per_layer(
        self, key: str, count: int, default: int | None = None, *, low: int = 0, high: int = 1 << 31
    ) -> tuple[int, ...]:
        """One number per layer: an array of at least `count` (extra prediction layers follow), or a scalar."""
        value = self._value(key, default)
        if not isinstance(value, Iterable):
            return (self._checked(key, value, low, high),) * count
        items = tuple(self._checked(key, item, low, high) for item in value)
        if len(items) < count:
            raise FormatError(f"{self.source}: {key} holds {len(items)} numbers for {count} layers.")
        return items[:count]

    def _value(self, key: str, default: int | None) -> Any:
        value = self._metadata.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise FormatError(f"{self.source} lacks the metadata key {self.architecture}.{key}.")
        return value

    def _checked(self, key: str, value: Any, low: int, high: int) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            raise FormatError(f"{self.source}: {key} must be a whole number, but is {value!r}.") from None
        if number != value or not low <= number <= high:
            raise FormatError(f"{self.source}: {key} is {value}; it must lie between {low} and {high}.")
        return number
