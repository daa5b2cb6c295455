from __future__ import annotations

import gguf
import pytest

from engine.gguf.quant_types import QuantType, known_type, type_name
from kernels import _cpu


def test_all_types_of_the_published_table() -> None:
    ours = {(kind.name, int(kind), kind.block_elements, kind.block_bytes) for kind in QuantType}
    table = {(kind.name, int(kind), *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    # The package gives Q8_1 the size it had when its scales were floats (no file holds it), and lacks Q2_0 as yet.
    assert {row[0] for row in ours ^ table} <= {"Q8_1", "Q2_0"}
    assert {("Q8_1", 9, 32, 36), ("Q2_0", 42, 64, 18)} <= ours  # as ggml.h has them


def test_the_kernels_agree() -> None:
    assert _cpu.QUANT_TYPES
    for type_id, row in _cpu.QUANT_TYPES.items():
        kind = QuantType(type_id)
        assert row == (kind.name, kind.block_elements, kind.block_bytes)


def test_row_bytes() -> None:
    assert QuantType.Q4_K.row_bytes(512) == 288
    with pytest.raises(ValueError, match="no multiple"):
        QuantType.Q4_K.row_bytes(128)


@pytest.mark.parametrize(
    ("type_id", "name"),
    [
        (12, "Q4_K"),
        (39, "MXFP4"),
        (43, "unsupported type 43"),
        (4, "unsupported type 4 (Q4_2, no longer in use)"),
        (31, "unsupported type 31 (Q4_0_4_4, no longer in use)"),
        (138, "unsupported type 138 (IQ3_K, of ik_llama.cpp)"),
        (2**32 - 1, "unsupported type 4294967295"),
    ],
)
def test_every_id_has_a_name(type_id: int, name: str) -> None:
    assert type_name(type_id) == name
    assert (known_type(type_id) is None) == name.startswith("unsupported")
