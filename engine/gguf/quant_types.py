"""Tensor types of GGUF files: ids, and how many bytes a block of how many elements takes.

Source: the ggml type table (`ggml.h`, `ggml-common.h`). Only sizes are given here; kernels say what they can run.
"""

from __future__ import annotations

import enum


class QuantType(enum.IntEnum):
    """A type id as it stands in a file. `block_elements` consecutive values of a row share `block_bytes` bytes."""

    block_elements: int
    block_bytes: int

    def __new__(cls, type_id: int, block_elements: int, block_bytes: int) -> QuantType:
        member = int.__new__(cls, type_id)
        member._value_ = type_id
        member.block_elements = block_elements
        member.block_bytes = block_bytes
        return member

    F32 = 0, 1, 4
    F16 = 1, 1, 2
    Q4_0 = 2, 32, 18
    Q4_1 = 3, 32, 20
    Q5_0 = 6, 32, 22
    Q5_1 = 7, 32, 24
    Q8_0 = 8, 32, 34
    Q8_1 = 9, 32, 36
    Q2_K = 10, 256, 84
    Q3_K = 11, 256, 110
    Q4_K = 12, 256, 144
    Q5_K = 13, 256, 176
    Q6_K = 14, 256, 210
    Q8_K = 15, 256, 292
    IQ2_XXS = 16, 256, 66
    IQ2_XS = 17, 256, 74
    IQ3_XXS = 18, 256, 98
    IQ1_S = 19, 256, 50
    IQ4_NL = 20, 32, 18
    IQ3_S = 21, 256, 110
    IQ2_S = 22, 256, 82
    IQ4_XS = 23, 256, 136
    I8 = 24, 1, 1
    I16 = 25, 1, 2
    I32 = 26, 1, 4
    I64 = 27, 1, 8
    F64 = 28, 1, 8
    IQ1_M = 29, 256, 56
    BF16 = 30, 1, 2
    TQ1_0 = 34, 256, 54
    TQ2_0 = 35, 256, 66
    MXFP4 = 39, 32, 17
    NVFP4 = 40, 64, 36
    Q1_0 = 41, 128, 18
    Q2_0 = 42, 64, 18

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row; ValueError where the row is no whole number of blocks."""
        blocks, rest = divmod(elements, self.block_elements)
        if rest:
            raise ValueError(f"a row of {elements} is no multiple of {self.name}'s block of {self.block_elements}")
        return blocks * self.block_bytes


# Ids that were used once and mean nothing to present readers, and those that only a fork of llama.cpp writes.
_REMOVED = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip
_FORK = {
    133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 137: "IQ2_K", 138: "IQ3_K", 139: "IQ4_K", 140: "IQ5_K",
    141: "IQ6_K", 144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS", 152: "IQ5_KS", 153: "IQ2_KT", 154: "IQ3_KT",
    155: "IQ4_KT", 156: "IQ3_KS", 157: "IQ2_KL", 158: "IQ1_KT",
}  # fmt: skip


def known_type(type_id: int) -> QuantType | None:
    return QuantType._value2member_map_.get(type_id)  # type: ignore[return-value]


def type_name(type_id: int) -> str:
    """A type's name for people, whatever the id."""
    known = known_type(type_id)
    if known is not None:
        return known.name
    if type_id in _REMOVED:
        return f"unsupported type {type_id} ({_REMOVED[type_id]}, no longer in use)"
    if type_id in _FORK:
        return f"unsupported type {type_id} ({_FORK[type_id]}, of ik_llama.cpp)"
    return f"unsupported type {type_id}"
