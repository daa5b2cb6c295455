"""Feed-forward blocks in RAM that come over the link for a step: the same logits, earlier, within the budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from engine.budget_control import BudgetControl
from engine.errors import OutOfMemoryError
from engine.gguf import GGUFFile
from engine.messages import Event, PlacementChanged
from engine.placement.costs import Workload
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.runtime.devices import LinkRates, VirtualClock
from engine.runtime.devices.open import emulated_machine
from engine.runtime.devices.streams import Span
from engine.runtime.migration import MigrationFailedError
from engine.runtime.placement import Placement
from engine.runtime.prefetch import Piece, buffer_sizes, pieces_of, prefetchable
from engine.runtime.rates import Rates
from engine.runtime.streaming import FEWEST_TOKENS
from tests.support.hybrid_model import HybridModel, Open, items_of, random_placement
from tests.support.logit_bounds import bounds
from tests.support.native_model import NativeModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("llama", "Q8_0", layers=4, feed_forward=512)
TOKENS = np.random.default_rng(8).integers(0, 256, FEWEST_TOKENS + 6).tolist()
FFN_BYTES = 3 * 256 * 512 * 34 // 32
BLOCKS = frozenset({"blk.1.ffn", "blk.3.ffn"})
RATES = Rates(cpu_bandwidth=FFN_BYTES / 4e-3, device_bandwidth=FFN_BYTES / 1e-3)


def without_blocks(model: HybridModel) -> frozenset[str]:
    """Everything but the embedding and BLOCKS."""
    return frozenset(items_of(model.graph)) - BLOCKS - {"embedding"}


def run(model: HybridModel) -> np.ndarray:
    """Logits of a prompt that is long enough, and of steps of one token behind it."""
    state = model.new_state()
    rows = [model.extend(state, TOKENS[:FEWEST_TOKENS])]
    rows += [model.extend(state, [token]) for token in TOKENS[FEWEST_TOKENS:]]
    state.release()
    return np.concatenate(rows)


def buffer_bytes(model: HybridModel, depth: int = 1) -> int:
    """Device memory that prefetching takes."""
    return sum(buffer_sizes(pieces_of(model.graph, prefetchable(model.graph), depth)).values())


def prefetched(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span.lane == "link" and span.name.endswith(" prefetched")]


def test_pieces_hold_one_large_product_each(tiny_models: Write) -> None:
    model = HybridModel(tiny_models(MODEL))
    pieces = pieces_of(model.graph, prefetchable(model.graph), 1)
    assert [piece.item for piece in pieces] == [f"blk.{layer}.ffn" for layer in range(4) for _ in range(2)]
    assert [piece.buffer for piece in pieces] == [0, 1] * 4
    for first, second in zip(pieces[::2], pieces[1::2], strict=True):
        assert first.end == second.begin and len(second.offsets) == 1
        kept = sum(model.graph.weights[name].nbytes for name in (*first.offsets, *second.offsets))
        assert kept == model.executor.residency.item_bytes(first.item)
    assert sum(buffer_sizes(pieces).values()) < 1.1 * FFN_BYTES
    assert pieces_of(model.graph, frozenset(), 1) == () and not prefetchable(
        HybridModel(tiny_models(TinyModel("qwen3moe", "Q8_0", layers=1, feed_forward=256))).graph
    )
    model.close()


@pytest.mark.parametrize("seed", range(12))
def test_the_same_logits_whatever_is_prefetched(tiny_models: Write, seed: int) -> None:
    path = tiny_models(MODEL)
    model, reference = HybridModel(path), NativeModel(path).logits(TOKENS)
    placement = random_placement(model.graph, Random(seed))
    model.place(placement)
    model.executor.trace = []
    rows = run(model)
    assert np.abs(rows - reference).max() <= 1e-3 * reference.std()
    copies = prefetched(model.executor.trace)
    steps, few, prompts = len(TOKENS) - FEWEST_TOKENS, placement.prefetched_for_few, placement.prefetched_for_prompts
    if prompts == few | placement.lent:  # then a prompt is a step like others
        prompts = few
    assert len(copies) == 2 * (len(prompts) + steps * len(few))
    model.close()


def test_a_block_need_not_come_into_the_same_buffers_in_all_steps(tiny_models: Write) -> None:
    """Blocks 1 and 3 are first and second in steps of one token, second and fourth in prompts."""
    path = tiny_models(MODEL)
    reference = NativeModel(path).logits([*TOKENS, *TOKENS])
    model = HybridModel(path)
    attention = frozenset(f"blk.{layer}.attn" for layer in range(4))
    model.place(Placement(attention, {}, {}, prefetchable(model.graph), BLOCKS, 2))
    executor = model.executor
    assert executor.schedule is not None and executor.prefill_schedule is not None
    buffers = [
        {piece.item: piece.buffer for piece in schedule.pieces}
        for schedule in (executor.schedule, executor.prefill_schedule)
    ]
    assert buffers[0]["blk.1.ffn"] != buffers[1]["blk.1.ffn"] and set(buffers[0].values()) == {1, 3}
    assert len(executor.residency.passing.buffers) == 4
    state, rows = model.new_state(), []
    for _ in range(2):
        rows.append(model.extend(state, TOKENS[:FEWEST_TOKENS]))
        rows += [model.extend(state, [token]) for token in TOKENS[FEWEST_TOKENS:]]
    state.release()
    assert np.abs(np.concatenate(rows) - reference).max() <= 1e-3 * reference.std()
    model.close()


@pytest.mark.parametrize("passing", [frozenset(), frozenset({"blk.2.ffn"})], ids=["all lent", "one passes"])
def test_what_is_lent_its_buffers_is_copied_back_once(tiny_models: Write, passing: frozenset[str]) -> None:
    """Behind each prompt, between two steps, in the link's time; then a token costs what it costs on the device."""
    path, depth = tiny_models(MODEL), 2 + len(passing)
    reference = NativeModel(path).logits([*TOKENS, *TOKENS])
    model = HybridModel(path, link=LinkRates(FFN_BYTES / 1e-3, 1e-6), clock=VirtualClock(), costs=RATES.seconds)
    attention, blocks = frozenset(f"blk.{layer}.attn" for layer in range(4)), prefetchable(model.graph)
    model.place(Placement(attention, {}, {}, blocks, passing, depth, BLOCKS))
    alone = model.device.memory.used
    state, rows = model.new_state(), []
    for _ in range(2):
        model.executor.trace = []
        rows.append(model.extend(state, TOKENS[:FEWEST_TOKENS]))
        assert len(prefetched(model.executor.trace)) == 2 * len(blocks)
        model.executor.trace = []
        rows += [model.extend(state, [token]) for token in TOKENS[FEWEST_TOKENS:]]
        spans, steps = model.executor.trace, list(model.executor.times.latest)[FEWEST_TOKENS - len(TOKENS) :]
        back = [span for span in spans if span.name == "what was lent its buffers"]
        assert len(back) == 1 and back[0].end - back[0].begin == pytest.approx(2e-3, rel=0.1)
        assert len(prefetched(spans)) == 2 * len(passing) * len(steps)
        assert steps[0].seconds - steps[1].seconds == pytest.approx(2e-3, rel=0.1)
        assert steps[1].seconds == pytest.approx(steps[2].seconds)
    state.release()
    assert np.abs(np.concatenate(rows) - reference).max() <= 1e-3 * reference.std()
    assert model.device.memory.used == alone, "room for both is there from the beginning"
    model.close()


def test_a_prompt_is_right_behind_a_copy_back_that_failed(tiny_models: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block 1 has other buffers in prompts than those that it was lent."""
    path = tiny_models(MODEL)
    model, reference = HybridModel(path), NativeModel(path).logits(TOKENS)
    attention, blocks = frozenset(f"blk.{layer}.attn" for layer in range(4)), prefetchable(model.graph)
    model.place(Placement(attention, {}, {}, blocks, frozenset(), 2, BLOCKS))
    state = model.new_state()
    model.extend(state, TOKENS[:FEWEST_TOKENS])

    def refuse(_piece: Piece) -> int:
        raise OutOfMemoryError("There is no memory.")

    with monkeypatch.context() as patch, pytest.raises(OutOfMemoryError):
        patch.setattr(model.executor.residency.passing, "load_piece", refuse)
        model.extend(state, TOKENS[FEWEST_TOKENS : FEWEST_TOKENS + 1])
    state.release()
    assert np.abs(run(model) - reference).max() <= 1e-3 * reference.std()
    model.close()


def test_on_a_card(tiny_models: Write, open_on_card: Open) -> None:
    shape = TinyModel("llama", "Q8_0", layers=2, feed_forward=256, vocabulary=256)
    path = tiny_models(shape)
    reference, model = NativeModel(path).logits(TOKENS), open_on_card(path)
    both = frozenset({"blk.0.ffn", "blk.1.ffn"})
    attention = frozenset({"blk.0.attn", "blk.1.attn"})
    one, nothing = frozenset({"blk.1.ffn"}), frozenset[str]()
    for few, depth, lent in ((both, 1, nothing), (one, 2, nothing), (nothing, 1, one)):
        model.place(Placement(attention, {}, {}, both, few, depth, lent))
        assert bounds(reference, "Q8_0", 2).allow(run(model) - reference)


@pytest.mark.parametrize("decode", [True, False], ids=["decode", "prompt"])
def test_a_copy_hides_behind_earlier_compute(tiny_models: Write, decode: bool) -> None:
    """Two feed-forward blocks take 4 ms each on the CPU, 1 ms on the device, and 1 ms over the link."""
    link = LinkRates(FFN_BYTES / 1e-3, 1e-6)
    model = HybridModel(tiny_models(MODEL), link=link, clock=VirtualClock(), costs=RATES.seconds)
    items = without_blocks(model)

    def seconds(placement: Placement) -> float:
        model.place(placement)
        model.executor.trace = []
        state = model.new_state()
        model.extend(state, TOKENS[:FEWEST_TOKENS])
        if decode:
            model.executor.trace = []
            model.extend(state, [TOKENS[FEWEST_TOKENS]])
        state.release()
        return model.executor.times.latest[-1].seconds

    without = seconds(Placement(items))
    assert not prefetched(model.executor.trace or [])
    hidden = seconds(Placement(items, prefetched_for_prompts=BLOCKS, prefetched_for_few=BLOCKS))
    spans = model.executor.trace
    assert spans is not None
    copies = prefetched(spans)
    assert len(copies) == 4 and {copy.stream for copy in copies} == {"weights"}
    assert hidden <= 1.05 * sum(span.end - span.begin for span in spans if span.lane != "link"), "every copy hides"
    assert without - hidden == pytest.approx(2 * 3e-3, rel=0.1)
    computed = [span for span in spans if span.lane == "GPU"]
    assert any(min(c.end, s.end) > max(c.begin, s.begin) for c in copies for s in computed)
    model.close()


@pytest.mark.parametrize("depth", [1, 2])
def test_what_passes_through_is_within_the_budget(tiny_models: Write, depth: int) -> None:
    model = HybridModel(tiny_models(MODEL))
    items = without_blocks(model)
    model.place(Placement(items))
    alone = model.device.memory.used
    target = Placement(items, {}, {}, BLOCKS, BLOCKS, depth)
    with pytest.raises(MigrationFailedError):
        model.place(target, limit=alone + buffer_bytes(model, depth) // 2)
    assert model.executor.placement == Placement(items) and model.device.memory.used == alone
    limit = alone + buffer_bytes(model, depth) + (64 << 10)
    model.place(target, limit=limit)
    run(model)
    assert model.executor.placement == target and alone < model.device.memory.peak <= limit
    model.place(Placement(items))
    assert model.device.memory.used == alone
    model.close()
    assert model.device.memory.used == 0


def test_a_plan_prefetches_what_does_not_fit(tiny_models: Write) -> None:
    """On the machine that the emulated device belongs to: for prompts the link beats the CPU."""
    path, events = tiny_models(TinyModel("llama", "Q8_0", layers=6, feed_forward=1024)), list[Event]()
    model = HybridModel(path, context=256)
    with GGUFFile.open(path) as gguf:
        planner = Planner(ModelShape.from_gguf(gguf), emulated_machine(), Workload(context=256, prompt=256, depth=64))
    control = BudgetControl(model.executor, planner, events.append)
    whole = sum(planner.sizes[1:])
    budget = planner.overhead + planner.buffer_bytes + int(0.8 * whole)
    assert planner.choose(budget).prefetch_depth == 1 and planner.buffer_bytes == buffer_bytes(model)
    control.set_budget(budget)
    control.finish()
    assert isinstance(events[-1], PlacementChanged)
    placement = model.executor.placement
    left = prefetchable(model.graph) - placement.on_device
    assert left and placement.prefetched_for_prompts == left
    run(model)
    assert model.device.memory.peak <= budget
    control.set_budget(planner.overhead + 2 * whole)
    control.finish()
    assert not model.executor.placement.prefetched, "everything is there"
    model.close()


def test_plans_keep_as_many_buffers_as_there_is_room_for(tiny_models: Write) -> None:
    """From a budget of nothing to one for everything and back: buffers for more blocks, fewer and none."""
    path, events = tiny_models(TinyModel("llama", "Q8_0", layers=24, feed_forward=1024)), list[Event]()
    model = HybridModel(path, context=256)
    with GGUFFile.open(path) as gguf:
        planner = Planner(ModelShape.from_gguf(gguf), emulated_machine(), Workload(context=256, prompt=96, depth=64))
    control = BudgetControl(model.executor, planner, events.append)
    reference, depths = run(model), []
    whole = sum(planner.sizes[1:])
    budgets = [planner.overhead + share * whole // 100 for share in (0, 16, 40, 90, 110, 40, 0)]
    for before, budget in zip([0, *budgets], budgets, strict=False):
        model.device.memory.peak = model.device.memory.used
        control.set_budget(budget)
        while control.is_busy:
            control.advance()
            assert model.device.memory.used <= max(before, budget)
        assert isinstance(events[-1], PlacementChanged)
        rows = run(model)
        assert np.abs(rows - reference).max() <= 1e-3 * reference.std()
        assert model.device.memory.used <= budget and model.device.memory.peak <= max(before, budget)
        buffers = model.executor.residency.passing.buffers
        depths.append(planner.choose(budget).prefetch_depth)
        assert len(buffers) <= 2 * depths[-1]
        assert sum(region.size for region in buffers.values()) <= depths[-1] * planner.buffer_bytes
        assert bool(buffers) == bool(model.executor.placement.prefetched)
        assert len(model.executor.placement.lent) <= depths[-1]
    assert depths == [0, 1, 3, 2, 0, 3, 0]
    model.close()
