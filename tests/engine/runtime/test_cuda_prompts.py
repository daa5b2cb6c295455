"""Prompts on the stand-in card: the host waits where the processor takes over, the card's streams for each other."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable

import numpy as np
import pytest

from engine.runtime.captured import copies_of, segments_of
from engine.runtime.devices.cuda.device import CudaDevice
from engine.runtime.executor import Chunk, Interrupted
from engine.runtime.placement import Placement
from engine.runtime.schedule import Schedule
from engine.runtime.work import ACTIVATIONS, COMPUTE
from tests.support.captured_steps import MODELS, TOKENS, Write, counted, mixed, near
from tests.support.hybrid_model import HybridModel, Open, banks_of, items_of
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_models import TinyModel

_LATE = 0.03  # seconds


@pytest.fixture(params=list(MODELS))
def shape(request: pytest.FixtureRequest) -> TinyModel:
    return MODELS[request.param]


@pytest.fixture
def model(shape: TinyModel, tiny_models: Write, open_on_card: Open) -> HybridModel:
    model = open_on_card(tiny_models(shape))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False  # experts that move are copied, and waited for, beside the prompt
    return model


def read(model: HybridModel, tokens: list[int]) -> Logits:
    state = model.new_state()
    rows = model.extend(state, tokens)
    state.release()
    return rows


def schedule_of(model: HybridModel) -> Schedule:
    schedule = model.executor.prefill_schedule or model.executor.schedule
    assert schedule is not None
    return schedule


class Slow:
    """Puts a pause before every task on one of the card's streams, and leaves one wait out: of the card's own, of
    the host's for a task, or for the step."""

    def __init__(self, device: CudaDevice, *, slow: str = "", without: int = -1, kind: str = "card") -> None:
        self._device, self._slow, self._without, self._kind = device, slow, without, kind
        self._follow, self._end, self._synchronize = device.follow, device.end, device.synchronize
        self.waits = 0
        self._pause = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(_LATE))
        device.follow, device.end = self.follow, self.end  # type: ignore[method-assign]
        device.synchronize = self.synchronize  # type: ignore[method-assign]

    def _is_left_out(self, kind: str) -> bool:
        self.waits += kind == self._kind
        return kind == self._kind and self.waits - 1 == self._without

    def follow(self, stream: str, ends: Iterable[object]) -> None:
        known = [end for end in ends if end in self._device._ends]
        if known and not self._is_left_out("card"):
            self._follow(stream, known)
        if stream == self._slow:
            pause = ctypes.cast(self._pause, ctypes.c_void_p).value
            self._device.card.call("cuLaunchHostFunc", self._device.card.streams[stream], pause, 0)

    def end(self, stream: str, ends: Iterable[object], *, is_awaited: bool) -> None:
        if not is_awaited or not self._is_left_out("host"):
            self._end(stream, ends, is_awaited=is_awaited)

    def synchronize(self) -> None:
        if not self._is_left_out("step"):
            self._synchronize()

    def undo(self) -> None:
        self._synchronize()
        self._device.follow, self._device.end = self._follow, self._end  # type: ignore[method-assign]
        self._device.synchronize = self._synchronize  # type: ignore[method-assign]


def test_the_host_waits_only_where_the_processor_takes_over(model: HybridModel) -> None:
    """A traced prompt waits for each task; another one for what the CPU takes, and for both streams' end."""
    right = read(model, TOKENS)
    ahead = counted("cuStreamSynchronize", lambda: read(model, TOKENS))
    model.executor.trace = []
    each = counted("cuStreamSynchronize", lambda: np.testing.assert_array_equal(read(model, TOKENS), right))
    model.executor.trace = None
    schedule = schedule_of(model)
    segments = [work for work in segments_of(schedule) if work.segment.on_device and not work.is_awaited]
    copies = [copy for copy in copies_of(schedule) if not copy.is_awaited]
    assert segments and copies and each - ahead == len(segments) + len(copies) - 2


def test_late_streams_change_nothing(model: HybridModel, shape: TinyModel, tiny_models: Write) -> None:
    reference = NativeModel(tiny_models(shape)).logits(TOKENS)
    for stream in (COMPUTE, ACTIVATIONS):
        read(model, TOKENS[::-1])
        slow = Slow(model.device, slow=stream)  # type: ignore[arg-type]
        assert near(read(model, TOKENS), reference, shape)
        slow.undo()


@pytest.mark.parametrize("shape", [MODELS["dense"]], ids=["dense"])
@pytest.mark.parametrize("kind", ["card", "host", "step"])
def test_every_wait_is_needed(model: HybridModel, shape: TinyModel, tiny_models: Write, kind: str) -> None:
    """Where one is left out and the stream that it waits for is late, logits are wrong. (With experts the host looks at
    what the router chose, and so waits for more than it would have to.)"""
    reference = NativeModel(tiny_models(shape)).logits(TOKENS)

    def is_right(slow: str, without: int) -> tuple[bool, int]:
        read(model, TOKENS[::-1])  # leaves other values wherever one may be read too early
        mutated = Slow(model.device, slow=slow, without=without, kind=kind)  # type: ignore[arg-type]
        right = near(read(model, TOKENS), reference, shape)
        mutated.undo()
        return right, mutated.waits

    right, waits = is_right("", -1)
    assert right and waits >= 1
    streams = (COMPUTE, ACTIVATIONS)
    missed = [number for number in range(waits) if all(is_right(slow, number)[0] for slow in streams)]
    assert not missed, f"{missed} of {waits}"


def test_a_prompt_that_is_left_has_ended_on_the_card(model: HybridModel, shape: TinyModel, tiny_models: Write) -> None:
    """Nothing that was launched goes on when its memory is used for something else."""
    state = model.new_state()
    state.reserve(len(TOKENS))
    slow = Slow(model.device, slow=COMPUTE)  # type: ignore[arg-type]
    with pytest.raises(Interrupted):
        model.executor.run([Chunk(state, TOKENS, 0)], lambda: True)
    slow.undo()
    state.release()
    items = frozenset(item for item in items_of(model.graph) if item != "embedding")
    model.place(Placement(items, dict.fromkeys(banks_of(model.graph), 1)))
    assert near(read(model, TOKENS), NativeModel(tiny_models(shape)).logits(TOKENS), shape)
