"""Pins outlive the model; a file that tells nonsense pins nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.placement.pin_store import PinStore
from engine.placement.pins import Pin, Pins
from tests.support.shapes import published_shape

SHAPE = published_shape("qwen3-30b-a3b-q4_k_m")
PINS = Pins.of({Pin("blk.3.attn", -1, True), Pin("blk.5.experts", 7, False), Pin("blk.5.experts", 9, True)})


def test_kept_by_the_tensors_not_by_the_name_of_the_file(tmp_path: Path) -> None:
    store = PinStore(tmp_path / "pins", SHAPE)
    assert store.load() == Pins()
    store.save(PINS)
    assert PinStore(tmp_path / "pins", replace(SHAPE, source="elsewhere.gguf")).load() == PINS
    assert PinStore(tmp_path / "pins", published_shape("kimi-k2-q4_k_m")).load() == Pins()
    store.save(Pins())
    assert store.load() == Pins() and not list((tmp_path / "pins").iterdir())


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "\xff", "[" * 100_000, '{"pins": 3}', '{"pins": [[1]]}', '{"pins": [["blk.3.attn", "x", true]]}',
     '{"pins": [["blk.3.attn", -1, true], ["blk.3.attn", -1, false]]}'],
)  # fmt: skip
def test_a_damaged_file_pins_nothing(tmp_path: Path, content: str) -> None:
    store = PinStore(tmp_path, SHAPE)
    store.path.write_text(content, "latin-1")
    assert store.load() == Pins()


def test_what_the_model_does_not_have_is_left_out(tmp_path: Path) -> None:
    store = PinStore(tmp_path, SHAPE)
    store.path.write_text(
        '{"pins": [["blk.3.attn", -1, true], ["blk.999.attn", -1, true], ["blk.5.experts", 128, true]]}'
    )
    assert store.load() == Pins.of({Pin("blk.3.attn", -1, True)})
