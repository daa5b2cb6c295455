"""Staging: where values wait between two devices' programs, one buffer per kind of value and direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.runtime.devices.memory import DeviceMemory, Region

Rows = npt.NDArray[Any]
MOST_ROWS = 1 << 14


class Staging:
    """Rows of `width` 4-byte values, in `memory` or in the host's. What was put last is what `rows` gives."""

    def __init__(self, name: str, width: int, is_ids: bool, memory: DeviceMemory | None) -> None:
        self.name = name
        self.width = width
        self.is_ids = is_ids
        self._type = np.int32 if is_ids else np.float32
        self._memory = memory
        self._region: Region | None = None
        self._buffer: Rows = np.empty((0, width), self._type)
        self.capacity = 0  # rows
        self.rows: Any = self._buffer  # as the program that takes them in wants them

    @property
    def charged(self) -> int:
        """Device memory in use."""
        return self._region.charged if self._region is not None else 0

    @property
    def buffer(self) -> Rows:
        """All of it; another one once more rows are reserved."""
        return self._buffer

    @property
    def address(self) -> int:
        """Of the rows, until more are reserved."""
        return int(self._buffer.ctypes.data)

    def show(self, rows: int) -> None:
        """Gives as `rows` what was copied here without `put`."""
        self.rows = self._buffer[:rows]

    def reserve(self, rows: int) -> None:
        """Room for `rows`. DeviceMemoryError where the device has none."""
        if rows <= self.capacity:
            return
        rows = 1 << (rows - 1).bit_length()
        if self._memory is None:
            self._buffer = np.empty((rows, self.width), self._type)
            self.capacity = rows
            return
        size = rows * self.width * 4
        if self._region is None:
            self._region = self._memory.reserve(MOST_ROWS * self.width * 4, "Staging")
        self._region.resize(size)
        self._buffer = self._region.view().view(self._type).reshape(rows, self.width)
        self.capacity = rows

    def put(self, rows: Any) -> int:
        """Copies `rows` in; the bytes copied."""
        self.rows = self._buffer[: len(rows)]
        np.copyto(self.rows, rows)
        return int(rows.nbytes)

    def release(self) -> None:
        if self._region is not None:
            self._region.release()
            self._region = None
        self._buffer = self.rows = np.empty((0, self.width), self._type)
        self.capacity = 0
