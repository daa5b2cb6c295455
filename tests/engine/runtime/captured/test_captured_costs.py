"""What captured steps cost: calls between two tokens, bytes over the link, kept graphs; and the time the card tells."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from engine.runtime.devices.cuda.graphs import MOST_GRAPHS, Graphs
from engine.runtime.executor import Chunk
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import LaunchError
from tests.support.captured_steps import MODELS, PROMPT, TOKENS, Write, counted, decode, mixed, near
from tests.support.hybrid_model import HybridModel, Open
from tests.support.native_model import Logits
from tests.support.python_calls import python_calls
from tests.support.tiny_models import TinyModel

MOST_CALLS = 150


@pytest.mark.parametrize("layers", [2, 6])
def test_a_replayed_step_calls_little(tiny_models: Write, open_on_card: Open, layers: int) -> None:
    """However many layers there are, Python does the same few things between two tokens."""
    shape = replace(MODELS["experts"], layers=layers)
    model = open_on_card(tiny_models(shape))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state, _ = decode(model, 4)
    assert python_calls(lambda: model.extend(state, [TOKENS[state.length]])) <= MOST_CALLS
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
