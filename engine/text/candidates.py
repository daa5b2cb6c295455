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
    """`size` candidates that samplers may sort, cut and mark; filled anew for every token."""

    def __init__(self, size: int) -> None:
        lib = llama()
        self.data = np.zeros(size, CANDIDATE)
        self._ids = np.arange(size, dtype=np.int32)
        pointer = self.data.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))
        self._array = lib.llama_token_data_array(data=pointer, size=size, selected=-1, sorted=False)
        self._reference = ctypes.byref(self._array)

    def fill(self, logits: Logits, ids: npt.NDArray[np.int32] | None = None) -> Candidates:
        """`logits` [size] of the tokens `ids` [size], or of the whole vocabulary in order."""
        self.data["id"] = self._ids if ids is None else ids
        self.data["logit"] = logits
        return self

    def apply(self, sampler: Any) -> Candidates:
        array = self._array
        array.size, array.selected, array.sorted = self.data.size, -1, False
        llama().llama_sampler_apply(sampler, self._reference)
        return self

    @property
    def selected(self) -> int:
        """The token that the last sampler picked, or -1."""
        index = self._array.selected
        return int(self.data["id"][index]) if 0 <= index < self._array.size else -1
