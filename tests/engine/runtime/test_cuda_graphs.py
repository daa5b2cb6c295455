"""Captured steps over the stand-in driver: the same numbers as tasks one by one, replayed, and counted."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError
from engine.memory.sequence_state import SequenceState
from engine.runtime.devices.cuda.graphs import MOST_GRAPHS, Graphs
from engine.runtime.executor import Chunk
from engine.runtime.expert_slots import Ids, Promotion, Uses
from engine.runtime.placement import Placement
from engine.runtime.schedule import Schedule
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import LaunchError
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits, NativeModel
from tests.support.python_calls import python_calls
from tests.support.stand_in_card import calls, charged, no_compiler, open_card, set_card, set_graph_order
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]
MODELS = {
    "dense": TinyModel("llama", "Q8_0", layers=2, feed_forward=256, vocabulary=256),
    "experts": TinyModel("qwen3moe", "Q8_0", layers=2, feed_forward=256, experts=4, vocabulary=256),
}
TOKENS = np.random.default_rng(4).integers(0, 256, 18).tolist()
PROMPT = 10
WINDOWS = (("gemma3.attention.sliding_window_pattern", 2), ("gemma3.attention.sliding_window", 8))
MOST_CALLS = 250


@pytest.fixture(autouse=True, scope="module")
def card() -> Iterator[None]:
    with no_compiler():
        yield
    set_card()


@pytest.fixture(scope="module", params=list(MODELS))
def shape(request: pytest.FixtureRequest) -> TinyModel:
    return MODELS[request.param]


@pytest.fixture
def model(shape: TinyModel, tiny_models: Write, tmp_path: Path) -> Iterator[HybridModel]:
    set_card()
    model = HybridModel(tiny_models(shape), context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    yield model
    model.close()
    assert charged() == 0


@pytest.fixture(scope="module")
def reference(shape: TinyModel, tiny_models: Write) -> Logits:
    return NativeModel(tiny_models(shape)).logits(TOKENS)


def mixed(model: HybridModel) -> Placement:
    """The first layer's attention stays on the CPU, and so do half of the experts or the last feed-forward block."""
    items = [i for i in items_of(model.graph) if i not in ("embedding", "blk.0.attn", "blk.1.ffn")]
    return Placement(frozenset(items), dict.fromkeys(banks_of(model.graph), 2))


def near(rows: Logits, reference: Logits, shape: TinyModel) -> bool:
    limit, wrong = bounds(reference, "Q8_0", shape.layers), rows - reference
    return bool(np.sqrt(np.mean(wrong**2)) <= limit.rms and np.abs(wrong).max() <= limit.largest)


def decode(model: HybridModel, steps: int = len(TOKENS) - PROMPT) -> tuple[SequenceState, Logits]:
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])
    return state, np.concatenate([model.extend(state, [t]) for t in TOKENS[PROMPT : PROMPT + steps]])


def by_bank(uses: Sequence[Uses]) -> dict[str, Ids]:
    return {bank: ids.copy() for part in uses for bank, ids in zip(part.banks, part.ids, strict=True)}


def counted(function: str, work: Callable[[], object]) -> int:
    before = calls(function)
    work()
    return calls(function) - before


def test_replayed_steps_give_the_cpus_logits(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    steps = len(TOKENS) - PROMPT
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    state.truncate(PROMPT)
    replay = lambda: model.extend(state, TOKENS[PROMPT : PROMPT + 1])  # noqa: E731
    launches = counted("cuLaunchKernel", replay)
    assert launches == 0, "nothing is launched from Python any more"
    state.truncate(PROMPT)
    assert counted("cuGraphLaunch", replay) == 1
    assert steps > 2
    state.release()


@pytest.mark.parametrize(
    "tiny",
    [
        TinyDeepSeek2(mix="Q8_0", experts=4, vocabulary=256, plain=32, value=32, rank=64),
        TinyQwen3Next(mix="Q8_0", experts=4, vocabulary=256),
        TinyModel("gemma3", "Q8_0", layers=2, feed_forward=256, vocabulary=256, overrides=WINDOWS),
        TinyModel("llama4", "Q8_0", layers=4, feed_forward=256, experts=4, vocabulary=256),
    ],
    ids=lambda tiny: tiny.family,
)
def test_other_memories_are_replayed(tiny_models: Write, tmp_path: Path, tiny: TinyModel) -> None:
    """A recurrent state changes its slot with every step; a latent cache has no values of its own; layers with a
    window, or with chunks, have a block table of their own."""
    set_card()
    path = tiny_models(tiny)
    reference, model = NativeModel(path).logits(TOKENS), HybridModel(path, context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    state, rows = decode(model)
    graphs = model.executor._graphs
    assert isinstance(graphs, Graphs) and not graphs.is_refused
    assert near(rows, reference[PROMPT:], tiny)
    state.release()
    model.close()
    assert charged() == 0


def test_tasks_one_by_one_give_the_same_bits(model: HybridModel) -> None:
    """The same kernels on the same numbers."""
    model.executor.promoter.is_enabled = False  # experts that move are rounded elsewhere
    state, captured = decode(model)
    state.release()
    graphs = model.executor._graphs
    assert isinstance(graphs, Graphs) and not graphs.is_refused
    graphs.is_refused = True
    state, alone = decode(model)
    state.release()
    assert np.array_equal(captured, alone)


def test_promotions_need_no_new_capture(tiny_models: Write, tmp_path: Path) -> None:
    shape = MODELS["experts"]
    path = tiny_models(shape)
    reference = NativeModel(path).logits(TOKENS)
    model = HybridModel(path, context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state, _ = decode(model, 3)

    def go_on() -> None:
        for number, token in enumerate(TOKENS[PROMPT + 3 :]):
            tables = {bank: memory.table for bank, memory in model.executor.residency.banks.items()}
            absent = {bank: int(np.flatnonzero(table.absent)[0]) for bank, table in tables.items()}
            model.executor.promoter.begin([Promotion(bank, e, number % 2) for bank, e in absent.items()])
            model.executor.promoter.finish()
            assert near(model.extend(state, [token]), reference[state.length - 1 : state.length], shape)

    assert counted("cuStreamBeginCapture_v2", go_on) == 0
    assert model.executor.promoter.promoted >= 2 * 5
    state.release()
    model.close()


def test_every_wait_is_needed_in_a_graph(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    """The stand-in runs a graph's nodes in any order that the events allow: without one of them, logits are wrong."""
    executor = model.executor
    executor.promoter.is_enabled = False
    intact = executor.schedule
    assert intact is not None and executor._graphs is not None

    def is_right(schedule: Schedule) -> bool:
        executor._graphs.close()
        executor.schedule = schedule
        executor._graphs = model.device.new_graphs(schedule, executor._sides, model.pool.blocks)
        state = model.new_state()
        model.extend(state, TOKENS[: PROMPT + 3])
        model.extend(state, [TOKENS[PROMPT + 3]])  # put on the streams; the next one is captured
        right = True
        for order in range(9):
            begin = PROMPT + order % 3  # other values than the step before
            state.truncate(begin)
            set_graph_order(order)
            right &= near(model.extend(state, [TOKENS[begin]]), reference[begin : begin + 1], shape)
        set_graph_order(0)
        state.release()
        return right

    assert is_right(intact)
    events = [event for tasks in intact.streams.values() for task in tasks for event in task.waits]
    missed = [event for event in events if is_right(intact.without(event))]
    assert len(events) >= 6 and not missed, f"{len(missed)} of {len(events)}"
    executor.schedule = intact


def test_uses_are_counted(tiny_models: Write, tmp_path: Path) -> None:
    """Of captured steps as of others: every token's experts, in every bank."""
    model = HybridModel(tiny_models(MODELS["experts"]), context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    seen = []
    note = model.executor.heat.note
    model.executor.heat.note = lambda uses: (seen.append(by_bank(uses)), note(uses))[1]  # type: ignore[method-assign]
    state, _ = decode(model)
    state.release()
    captured, seen[:] = seen[:], []
    assert model.executor._graphs is not None
    model.executor._graphs.is_refused = True  # type: ignore[attr-defined]
    state, _ = decode(model)
    state.release()
    assert len(captured) == len(seen) and all(
        np.array_equal(a[bank], b[bank]) for a, b in zip(captured, seen, strict=True) for bank in b
    )
    model.close()


@pytest.mark.parametrize("layers", [2, 6])
def test_a_replayed_step_calls_little(tiny_models: Write, tmp_path: Path, layers: int) -> None:
    """However many layers there are, Python does the same few things between two tokens."""
    shape = replace(MODELS["experts"], layers=layers)
    model = HybridModel(tiny_models(shape), context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state, _ = decode(model, 4)
    assert python_calls(lambda: model.extend(state, [TOKENS[state.length]])) <= MOST_CALLS
    state.release()
    model.close()


def test_a_traced_step_tells_what_the_card_did(model: HybridModel) -> None:
    """Segments and copies as spans of the card's own events; the order is that of the schedule."""
    executor = model.executor
    executor.promoter.is_enabled = False
    state, _ = decode(model, 4)
    for _ in range(2):  # the first is captured, the second replayed
        executor.trace = []
        assert counted("cuGraphLaunch", lambda: model.extend(state, [TOKENS[state.length]])) == 1
        spans = executor.trace
        assert executor.schedule is not None
        for stream, tasks in executor.schedule.streams.items():
            found = [span for span in spans if span.stream == stream]
            assert [span.name for span in found] == [task.name for task in tasks]
            assert all(a.end <= b.begin + 1e-4 for a, b in pairwise(found)), stream
        busy = executor.times.latest[-1].busy
        assert busy["GPU"] > 0 and busy["CPU"] > 0
        assert busy["GPU"] == pytest.approx(sum(s.end - s.begin for s in spans if s.lane == "GPU"), rel=1e-3)
        assert sum(busy.values()) <= 2.5 * executor.times.latest[-1].seconds
    state.release()


@pytest.mark.parametrize("refused", ["cuEventRecordWithFlags", "cuEventElapsedTime"])
def test_a_driver_that_times_nothing(
    model: HybridModel, shape: TinyModel, reference: Logits, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Steps are captured all the same, and traced ones tell of the processor alone."""
    real = Driver.call

    def refuse(self: Driver, function: str, *args: object) -> None:
        if function == refused:
            raise LaunchError("not supported")
        real(self, function, *args)

    monkeypatch.setattr(Driver, "call", refuse)
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    state.truncate(PROMPT)
    model.executor.trace = []
    assert counted("cuGraphLaunch", lambda: model.extend(state, [TOKENS[PROMPT]])) == 1
    assert {span.lane for span in model.executor.trace if span.stream != "weights"} == {"CPU"}
    assert "GPU" not in model.executor.times.latest[-1].busy
    state.release()


def test_the_cards_share_is_known_without_a_trace(model: HybridModel) -> None:
    """One of the first steps is timed, so that a plan can be corrected where the card is slow."""
    state, _ = decode(model, 5)
    assert model.executor.times.latest[-1].busy["GPU"] > 0
    state.release()


def test_flags_instead_of_host_functions(
    shape: TinyModel, tiny_models: Write, reference: Logits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Windows' WDDM takes: the same logits, no host function, and errors end a step as ever."""
    set_card()
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    device = open_card(tmp_path)
    monkeypatch.undo()
    assert device.hands_over_by_flags
    model = HybridModel(tiny_models(shape), context=64, device=device)
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False

    def run() -> None:
        state, rows = decode(model)
        assert near(rows, reference[PROMPT:], shape)
        state.release()

    assert counted("cuLaunchHostFunc", run) == 0
    assert counted("cuGraphLaunch", run) == len(TOKENS) - PROMPT
    state, _ = decode(model, 3)
    state.reserve(1)
    with pytest.raises(EngineError, match="token 9999 is outside the table"):
        model.executor.run([Chunk(state, [9999], 0)])
    row = model.extend(state, [TOKENS[state.length]])
    assert near(row, reference[state.length - 1 : state.length], shape)
    state.release()
    model.close()
    assert charged() == 0


def test_a_launch_that_fails_leaves_no_flag_behind(
    tiny_models: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver refuses a graph's launch: the step runs task by task, and nobody waits for a flag."""
    shape = MODELS["dense"]
    reference = NativeModel(tiny_models(shape)).logits(TOKENS)
    set_card()
    device = open_card(tmp_path)
    device.hands_over_by_flags = True
    model = HybridModel(tiny_models(shape), context=64, device=device)
    model.place(mixed(model))
    real = Driver.call

    def refuse(self: Driver, function: str, *args: object) -> None:
        if function == "cuGraphLaunch":
            raise LaunchError("not now")
        real(self, function, *args)

    monkeypatch.setattr(Driver, "call", refuse)
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    state.release()
    model.close()
    assert charged() == 0


def test_a_refusal_that_passes_is_forgotten(
    model: HybridModel, shape: TinyModel, reference: Logits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver refuses one launch: some steps run task by task, then graphs are made and replayed again."""
    monkeypatch.setattr("engine.runtime.devices.cuda.graphs._RETRY_AFTER", 3)
    real, refusals = Driver.call, [True]

    def refuse(self: Driver, function: str, *args: object) -> None:
        if function == "cuGraphLaunch" and refusals:
            refusals.pop()
            raise LaunchError("not now")
        real(self, function, *args)

    monkeypatch.setattr(Driver, "call", refuse)
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])

    def step() -> None:
        state.truncate(PROMPT)
        rows = model.extend(state, TOKENS[PROMPT : PROMPT + 1])
        assert near(rows, reference[PROMPT : PROMPT + 1], shape)

    steps = [counted("cuGraphLaunch", step) for _ in range(8)]
    assert not refusals
    # put directly; refused; two task by task; put directly; captured and replayed from then on
    assert steps == [0, 0, 0, 0, 0, 1, 1, 1]
    state.release()


def test_a_changed_table_is_not_waited_for(tiny_models: Write, tmp_path: Path) -> None:
    """A replayed step waits once, for its end, whether or not experts have moved; and what they moved to is read."""
    set_card()
    model = HybridModel(tiny_models(MODELS["experts"]), context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])

    def step() -> Logits:
        state.truncate(PROMPT)
        return model.extend(state, TOKENS[PROMPT : PROMPT + 1]).copy()

    before = [step() for _ in range(3)][-1]
    plain = counted("cuStreamSynchronize", step)
    for bank in model.executor.residency.banks:
        program = model.executor._sides[True].program
        model.device.set_table(program, bank, model.executor.residency.banks[bank].table.slots)
    assert counted("cuStreamSynchronize", step) == plain == 1
    assert np.array_equal(step(), before)
    state.release()
    model.close()


def test_prefetched_weights_are_part_of_the_graph(
    tiny_models: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled by host functions in small chunks, on streams of their own; in any order that events allow."""
    monkeypatch.setattr("engine.runtime.devices.cuda.pieces._CHUNK", 48 << 10)
    shape = replace(MODELS["dense"], layers=3)
    path = tiny_models(shape)
    reference = NativeModel(path).logits(TOKENS)
    set_card()
    model = HybridModel(path, context=64, device=open_card(tmp_path))
    blocks = frozenset({"blk.0.ffn", "blk.1.ffn", "blk.2.ffn"})
    rest = frozenset(items_of(model.graph)) - blocks - {"embedding", "blk.0.attn"}
    model.place(Placement(rest, prefetched_for_few=blocks))
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    copied = model.executor.residency.traffic.to_device
    for order in range(8):
        state.truncate(PROMPT + order % 3)
        set_graph_order(order)
        token = TOKENS[state.length]
        assert counted("cuGraphLaunch", lambda token=token: model.extend(state, [token])) == 1  # type: ignore[misc]
        state.truncate(state.length - 1)
        assert near(model.extend(state, [token]), reference[state.length - 1 : state.length], shape)
    set_graph_order(0)
    each = sum(model.executor.residency.item_bytes(item) for item in blocks)
    assert model.executor.residency.traffic.to_device - copied >= 16 * each
    state.release()
    model.close()
    assert charged() == 0


def test_several_sequences_in_one_step(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    states = [model.new_state() for _ in range(3)]
    for length, state in zip((4, 7, 9), states, strict=True):
        model.extend(state, TOKENS[:length])
    for _ in range(4):
        for state in states:
            state.reserve(1)
        chunks = [Chunk(state, [TOKENS[state.length]], 0) for state in states]
        rows = model.executor.run(chunks).copy()
        for row, state in zip(rows, states, strict=True):
            state.commit([TOKENS[state.length]])
            assert near(row[None], reference[state.length - 1 : state.length], shape)
    for state in states:
        state.release()


def test_prompts_in_between_keep_graphs_right(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    """They use memory of the same region, and may move values."""
    state, _ = decode(model, 4)
    for length in (12, 16, 17):
        other = model.new_state()
        model.extend(other, TOKENS[:length])
        other.release()
        row = model.extend(state, [TOKENS[state.length]])
        assert near(row, reference[state.length - 1 : state.length], shape)
    state.release()


def test_what_a_captured_step_copies_is_counted(model: HybridModel) -> None:
    state, _ = decode(model, 3)
    traffic = model.executor.residency.traffic
    before = traffic.to_device, traffic.to_host
    model.executor.promoter.is_enabled = False
    model.extend(state, [TOKENS[state.length]])
    crossings = model.executor.schedule.segments.crossings  # type: ignore[union-attr]
    values = [4 * model.executor._sides[True].graph.values[name] for c in crossings for name in c.values]
    assert traffic.to_device > before[0] and traffic.to_host > before[1]
    assert traffic.to_device + traffic.to_host - sum(before) >= sum(values)
    state.release()


def test_only_some_graphs_are_kept(model: HybridModel) -> None:
    graphs = model.executor._graphs
    assert isinstance(graphs, Graphs)
    states = [model.new_state() for _ in range(MOST_GRAPHS + 2)]
    for count in range(1, len(states) + 1):
        for state in states[:count]:
            state.reserve(1)
        model.executor.run([Chunk(state, [5], 0) for state in states[:count]])
        assert len(graphs._graphs) <= MOST_GRAPHS
    for state in states:
        state.release()


def test_without_pinned_memory_nothing_is_captured(
    shape: TinyModel, tiny_models: Write, reference: Logits, tmp_path: Path
) -> None:
    set_card(pinned=0)
    model = HybridModel(tiny_models(shape), context=64, device=open_card(tmp_path))
    model.place(mixed(model))

    def run() -> None:
        state, rows = decode(model)
        assert near(rows, reference[PROMPT:], shape)
        state.release()

    assert counted("cuGraphLaunch", run) == 0
    model.close()
    set_card()


def test_a_driver_that_captures_nothing(
    model: HybridModel, shape: TinyModel, reference: Logits, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Driver.make

    def refuse(self: Driver, function: str, *args: object) -> int:
        if function == "cuGraphInstantiateWithFlags":
            raise LaunchError("not supported")
        return real(self, function, *args)

    monkeypatch.setattr(Driver, "make", refuse)
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    state.release()


def test_the_processors_share_may_fail(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    """A token that is in no table: the step ends with an error, and the next one is right."""
    state, _ = decode(model, 3)
    state.reserve(1)
    with pytest.raises(EngineError, match=r"processor's share of a step failed: .*token 9999 is outside the table"):
        model.executor.run([Chunk(state, [9999], 0)])
    row = model.extend(state, [TOKENS[state.length]])
    assert near(row, reference[state.length - 1 : state.length], shape)
    state.release()
