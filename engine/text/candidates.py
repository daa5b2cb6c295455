"""The vocabulary as llama.cpp's candidate array, over memory that NumPy owns."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.text.llama_library import llama

Logits = npt.NDArray[np.float32]

# llama_token_data in llama.h
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Candidates:
    """Up to `size` candidates that samplers may sort, cut and mark; filled anew for every token."""

    def __init__(self, size: int) -> None:
        lib = llama()
        self.data = np.zeros(size, CANDIDATE)
        self._ids = np.arange(size, dtype=np.int32)
        self._count = size
        pointer = self.data.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))
        self._array = lib.llama_token_data_array(data=pointer, size=size, selected=-1, sorted=False)
        self._reference = ctypes.byref(self._array)

    def fill(self, logits: Logits, ids: npt.NDArray[Any] | None = None) -> Candidates:
        """The tokens `ids` with their `logits`, or the whole vocabulary in order."""
        self._count = count = logits.size
        self.data["id"][:count] = self._ids if ids is None else ids
        self.data["logit"][:count] = logits
        return self

    def apply(self, sampler: Any) -> Candidates:
        array = self._array
        array.size, array.selected, array.sorted = self._count, -1, False
        llama().llama_sampler_apply(sampler, self._reference)
        return self

    @property
    def selected(self) -> int:
        """The token that the last sampler picked, or -1."""
        index = self._array.selected
        return int(self.data["id"][index]) if 0 <= index < self._array.size else -1
