"""Slot tables, heat and promotion: what is used often gets a slot, in the background, and stays there."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.placement.locality import PROMOTED_SHARE, RoutingGenerator, recent_hits
from engine.runtime.expert_slots import ADVANTAGE, HALF_LIFE_TOKENS, MARGIN, PINNED, ExpertHeat, SlotTable, Uses
from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, Open, banks_of
from tests.support.logit_bounds import bounds
from tests.support.native_model import NativeModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
TOKENS = list(range(40, 52))


def test_lookup_gives_slots_and_marks_the_rest() -> None:
    table = SlotTable.of(6, [4, -1, 2])
    assert table.lookup(np.array([[4, 2], [0, 5]], np.int32)).tolist() == [[0, 2], [-1, -1]]
    with pytest.raises(IndexError):
        table.lookup(np.array([6], np.int32))
    assert table.absent.tolist() == [True, True, False, True, False, True]
    table.evict(0)
    table.install(1, 5)
    assert table.residents == (2, 5) and table.lookup(np.array([4, 5], np.int32)).tolist() == [-1, 1]


def test_heat_decays_and_ranks() -> None:
    heat = ExpertHeat({"a": 4, "b": 8})
    for _ in range(20):
        heat.note(Uses.of({"a": np.array([[0, 1]], np.int32), "b": np.array([[7, 1]], np.int32)}))
    assert heat.hottest("a", 2, 4) == (0, 1) and heat.hottest("b", 2, 8) == (1, 7)
    for _ in range(400):
        heat.note(Uses.of({"a": np.array([[2, 3]], np.int32), "b": np.array([[0, 1]], np.int32)}))
    assert set(heat.hottest("a", 2, 4)) == {2, 3} and heat.of("a")[0] < 3


def test_uses_that_were_noted_are_in_what_is_asked_for() -> None:
    """Whenever that is, and whatever becomes of the arrays meanwhile."""
    heat, ids = ExpertHeat({"a": 4, "b": 8}), np.zeros((2, 1, 2), np.int32)
    heat.set_slots("a", SlotTable.of(4, [1, 3]))
    for step in range(6):
        ids[:] = [[[0, 1]], [[step, 7]]]
        heat.note((Uses(("a", "b"), ids),))
        ids[:] = 3
        if step == 1:
            heat.set_slots("a", SlotTable.of(4, [0, 1]))
    assert heat.found == (2 + 4 * 2, 24) and heat.hit_rate == 10 / 24
    assert heat.recorded_tokens == 6
    counts, tokens = heat.take_record()
    assert tokens == 6 and counts == {"a": [6, 6, 0, 0], "b": [1, 1, 1, 1, 1, 1, 0, 6]}
    assert heat.of("b")[7] > 5.5 and heat.found == (10, 24) and heat.recorded_tokens == 0


def test_promotion_needs_a_clear_advantage() -> None:
    heat = ExpertHeat({"a": 4})
    heat.set_slots("a", SlotTable.of(4, [0, 1]))
    uses = [[0, 2], [1, 3]] * 30
    for row in uses:
        heat.note(Uses.of({"a": np.array([row], np.int32)}))
    assert heat.promotions(("a",), 4) == [], "experts used alike do not take turns"
    for _ in range(60):
        heat.note(Uses.of({"a": np.array([[0, 2]], np.int32)}))
    (promotion,) = heat.promotions(("a",), 4)
    assert (promotion.expert, promotion.slot) == (2, 1)


def promotions_of(heat: dict[str, list[float]], tables: dict[str, SlotTable], limit: int) -> list[tuple[str, int, int]]:
    """What `ExpertHeat.promotions` has to give: in each bank the most used expert without a slot against an empty slot,
    or the least used one in a slot; of the banks whose expert is used most, those where that pays."""
    wanted = []
    for bank, table in tables.items():
        absent = [expert for expert in range(table.count) if table.slots[expert] < 0]
        best = max(absent, key=lambda e: heat[bank][e], default=-1)
        if best >= 0 and heat[bank][best] > MARGIN and len(table.experts):
            wanted.append((heat[bank][best], bank, best))
    found = []
    for gain, bank, best in sorted(wanted, key=lambda one: -one[0])[:limit]:
        use = [heat[bank][expert] if expert >= 0 else -math.inf for expert in tables[bank].experts.tolist()]
        least = max(0.0, min(use))
        if gain > least * ADVANTAGE + MARGIN:
            found.append((gain - least, bank, best, use.index(min(use))))
    return [one[1:] for one in sorted(found, key=lambda one: -one[0])]


@pytest.mark.parametrize("seed", range(20))
def test_counts_and_promotions_are_those_of_plain_python(seed: int) -> None:
    """Banks of different sizes, some tokens at once, slots that are empty, experts that are pinned, ties."""
    random = np.random.default_rng(seed)
    sizes = {f"bank {number}": int(random.integers(2, 12)) for number in range(6)}
    heat, banks, pinned = ExpertHeat(sizes), tuple(sizes), tuple(sizes)[2]
    plain = {bank: np.zeros(size, np.float32) for bank, size in sizes.items()}
    tables = {}
    for bank, size in sizes.items():
        residents = random.permutation(size)[: random.integers(0, size)]
        tables[bank] = SlotTable.of(size, np.where(random.random(len(residents)) < 0.2, -1, residents).tolist())
        heat.set_slots(bank, tables[bank])
    heat.pin(pinned, [1], [0])
    hits = uses = 0
    for _ in range(40):
        tokens = int(random.integers(1, 4))
        used = {bank: random.integers(0, size, (tokens, 2)).astype(np.int32) for bank, size in sizes.items()}
        heat.note(Uses.of(used))
        for bank, ids in used.items():
            plain[bank] *= np.float32(0.5 ** (tokens / HALF_LIFE_TOKENS))
            np.add.at(plain[bank], ids.ravel(), np.float32(1))
            hits, uses = hits + int(np.count_nonzero(tables[bank].lookup(ids) >= 0)), uses + ids.size
        limit = int(random.integers(0, 7))
        decided = {bank: values.astype(float).tolist() for bank, values in plain.items()}
        decided[pinned][1] += float(PINNED)
        decided[pinned][0] -= float(PINNED)
        promotions = [(p.bank, p.expert, p.slot) for p in heat.promotions(banks, limit)]
        assert promotions == promotions_of(decided, tables, limit)
    for bank, values in plain.items():
        np.testing.assert_allclose(heat.of(bank)[: sizes[bank]], values, rtol=1e-6)
    assert heat.found == (hits, uses)


def test_what_is_no_expert_is_refused_and_counts_for_nothing() -> None:
    heat = ExpertHeat({"a": 4, "b": 8})
    for wrong in (4, -1):
        with pytest.raises(IndexError, match=f"{wrong} is none of 4"):
            heat.note((Uses(("b", "a"), np.array([[[1, 2]], [[0, wrong]]], np.int32)),))
    with pytest.raises(ValueError, match="no such place"):
        heat._native.set_places(0, np.array([0, 3, -1, -1], np.int32), 3)
    assert heat.found == (0, 0) and not heat.of("b").any()


def test_recent_use_finds_most_experts_of_a_text() -> None:
    """The policy on drawn routings: a quarter of the experts in slots covers far more than a quarter of the uses."""
    experts, used, slots = 128, 8, 32
    heat, table = ExpertHeat({"a": experts}), SlotTable.of(experts, range(slots))
    hits, promoted = [], 0
    routing = RoutingGenerator(experts, used, seed=4).text(600)
    for row in routing:
        ids = row[None].astype(np.int32)
        heat.set_slots("a", table)
        before = heat.found
        heat.note(Uses.of({"a": ids}))
        found, uses = (after - earlier for after, earlier in zip(heat.found, before, strict=True))
        assert found == np.count_nonzero(table.lookup(ids) >= 0) and uses == used
        hits.append(found / uses)
        for promotion in heat.promotions(("a",), 1):
            table.evict(promotion.slot)
            table.install(promotion.slot, promotion.expert)
            promoted += 1
    late = float(np.mean(hits[300:]))
    assert late > 0.75 and late >= recent_hits(routing, slots)
    misses = sum((1 - hit) * used for hit in hits)
    assert promoted <= 2 * PROMOTED_SHARE * misses, "the link carries little beside what it saves"


def test_experts_move_in_while_the_model_runs(tiny_models: Write) -> None:
    path = tiny_models(TinyModel("qwen3moe", layers=2, experts=8, experts_used=2))
    tokens = ([11, 12, 13, 11, 14] * 30)[:120]
    reference = NativeModel(path).logits(tokens)
    model = HybridModel(path)
    model.place(Placement(frozenset({"blk.0.ffn", "blk.1.ffn"}), dict.fromkeys(banks_of(model.graph), 3)))
    state = model.new_state()
    rows = np.concatenate([model.extend(state, [token]) for token in tokens])
    assert np.abs(rows - reference).max() <= 1e-3 * reference.std()
    promoter, residency = model.executor.promoter, model.executor.residency
    promoter.finish()
    assert promoter.promoted > 0
    for bank in banks_of(model.graph):
        heat, table = model.executor.heat.of(bank), residency.banks[bank].table
        assert len(table.residents) == 3
        coldest = min(heat[list(table.residents)])
        assert max(heat[table.absent]) <= 2 * coldest + 2, "nothing much hotter stays outside"
    state.release()
    model.close()


@pytest.mark.parametrize("on_card", [False, True], ids=["emulated", "stand-in card"])
def test_a_bank_that_shrinks_keeps_its_hottest_experts(tiny_models: Write, open_on_card: Open, on_card: bool) -> None:
    path = tiny_models(TinyModel("qwen3moe", "Q8_0", layers=1, feed_forward=256, experts=8))
    reference = NativeModel(path).logits(TOKENS)
    model = open_on_card(path) if on_card else HybridModel(path, context=64)
    (bank,) = banks_of(model.graph)
    model.place(Placement(frozenset(), {bank: 6}))
    table = model.executor.residency.banks[bank].table
    model.executor.promoter.is_enabled = False
    heat = model.executor.heat.of(bank)
    heat[:] = 0
    heat[table.experts[[1, 4, 5]]] = 7, 9, 8
    hottest = set(table.experts[[1, 4, 5]].tolist())
    model.place(Placement(frozenset(), {bank: 3}))
    assert set(model.executor.residency.banks[bank].table.residents) == hottest
    state = model.new_state()
    rows = model.extend(state, TOKENS)
    assert bounds(reference, "Q8_0", 1).allow(rows - reference), "what moved is what its table says"
    state.release()
    model.close()
