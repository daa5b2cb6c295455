"""What is recorded of experts' use: counts that decay, files that may be anything, and plans that go by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.placement.budget import Budget
from engine.placement.hardware.catalogue import machine
from engine.placement.heat import FEWEST_TOKENS, HALF_LIFE_TOKENS, HeatStore, RecordedHeat
from engine.placement.items import model_items
from engine.placement.planner import Planner
from tests.support.shapes import published_shape

GiB = 1 << 30
SHAPE = published_shape("qwen3-30b-a3b-q4_k_m")
BANKS = model_items(SHAPE).banks


def skewed(tokens: float = 4096.0) -> RecordedHeat:
    """Of each bank, the last 16 experts get all the uses."""
    count = BANKS[0].count
    row = [0.0] * (count - 16) + [tokens * BANKS[0].used / 16] * 16
    return RecordedHeat(tokens, {bank.key: row for bank in BANKS})


def test_old_uses_count_half_after_the_half_life() -> None:
    first = RecordedHeat().after({"b": [10.0, 0.0]}, 10)
    assert (first.tokens, first.counts) == (pytest.approx(10.0), {"b": [10.0, 0.0]})
    second = first.after({"b": [0.0, 4.0]}, int(HALF_LIFE_TOKENS))
    assert second.counts["b"] == pytest.approx([5.0, 4.0])
    assert second.tokens == pytest.approx(5.0 + HALF_LIFE_TOKENS)


def test_too_little_or_of_another_model_is_no_heat() -> None:
    assert skewed().of(BANKS) is not None
    assert skewed(FEWEST_TOKENS / 2).of(BANKS) is None
    assert RecordedHeat(1e4, {"blk.0.experts": (1.0,)}).of(BANKS) is None
    assert skewed().of(()) is None


def test_kept_by_the_tensors_not_by_the_name_of_the_file(tmp_path: Path) -> None:
    store = HeatStore(tmp_path, SHAPE)
    assert store.load() == RecordedHeat()
    store.save(skewed())
    assert store.load().of(BANKS) == skewed().of(BANKS)
    assert HeatStore(tmp_path, replace(SHAPE, source="elsewhere.gguf")).path == store.path
    assert HeatStore(tmp_path, published_shape("kimi-k2-q4_k_m")).path != store.path
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "\xff", "[" * 100_000, '{"tokens": "x", "counts": {}}', '{"tokens": NaN, "counts": {}}'),
        *(
            '{"tokens": 1, "counts": {"b": 3}}',
            '{"tokens": 1, "counts": {"b": [-1]}}',
            '{"tokens": 1e999, "counts": {}}',
        ),
    ],
)
def test_a_damaged_record_is_an_empty_one(tmp_path: Path, content: str) -> None:
    store = HeatStore(tmp_path, SHAPE)
    store.path.write_text(content, "latin-1")
    assert store.load() == RecordedHeat()


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HeatStore(tmp_path, SHAPE)
    store.save(skewed())

    def full(self: Path, *_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        store.save(RecordedHeat(1.0))
    monkeypatch.undo()
    assert json.loads(store.path.read_text("utf-8"))["tokens"] == 4096.0


def test_the_planner_names_the_experts_and_expects_more_of_uneven_use() -> None:
    hardware = machine("Ryzen 7 7700X", "RTX 4070", 64 * GiB)
    plain = Planner(SHAPE, hardware).plan(Budget(4 * GiB))
    known = Planner(SHAPE, hardware, heat=skewed().of(BANKS)).plan(Budget(4 * GiB))
    placed = next(experts for experts in known.experts if experts.slots >= 16)
    hot = set(range(placed.bank.count - 16, placed.bank.count))
    assert hot <= set(placed.resident)
    assert known.predicted.hit_rate is not None and plain.predicted.hit_rate is not None
    assert known.predicted.hit_rate > plain.predicted.hit_rate
    assert known.predicted.decode > plain.predicted.decode
