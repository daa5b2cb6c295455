"""One architecture's metadata keys, read with their type and least value, a default or required."""

from __future__ import annotations

import numpy as np

from engine.errors import FormatError
from engine.gguf import REQUIRED, GGUFFile


class Keys:
    """Keys are given without the architecture's name in front; errors name the whole key and the file."""

    def __init__(self, gguf: GGUFFile) -> None:
        self._metadata = gguf.metadata
        self._file = gguf.path.name
        self._prefix = gguf.architecture

    def has(self, key: str) -> bool:
        return self._full(key) in self._metadata

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0) -> int:
        value = self._metadata.u32(self._full(key), REQUIRED if default is None else default)
        return self._at_least(key, value, minimum)

    def per_layer(self, key: str, layer: int, layers: int, default: int | None = None) -> int:
        """A count that a file gives once for all layers, or as an array of one per layer; at least 1."""
        fallback = REQUIRED if default is None else (default,) * layers
        return self._at_least(key, self._metadata.u32_array_or_scalar(self._full(key), layers, fallback)[layer], 1)

    def integers(self, key: str, count: int, default: int) -> tuple[int, ...]:
        """One number or flag per layer; a file may give one number for all."""
        flags = self._metadata.get(self._full(key))
        if isinstance(flags, np.ndarray) and flags.dtype == np.bool_ and len(flags) == count:
            return tuple(map(int, flags.tolist()))
        return tuple(self._metadata.u32_array_or_scalar(self._full(key), count, (default,) * count))

    def number(self, key: str, default: float | None = None) -> float:
        return self._metadata.f32(self._full(key), REQUIRED if default is None else default)

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise FormatError(f"{self._file}: {self._full(key)} is {value}, which must be above zero.")
        return value

    def flag(self, key: str, default: bool) -> bool:
        return self._metadata.bool(self._full(key), default)

    def text(self, key: str, default: str) -> str:
        return self._metadata.string(self._full(key), default)

    def _full(self, key: str) -> str:
        return f"{self._prefix}.{key}"

    def _at_least(self, key: str, value: int, minimum: int) -> int:
        if value < minimum:
            raise FormatError(f"{self._file}: {self._full(key)} is {value}, and at least {minimum} is needed.")
        return value
