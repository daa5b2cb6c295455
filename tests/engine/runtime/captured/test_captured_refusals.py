"""Captured steps where the driver or the system refuses something, and where the processor's share fails."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.runtime.executor import Chunk
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import LaunchError
from tests.support.captured_steps import MODELS, PROMPT, TOKENS, Write, counted, decode, mixed, near
from tests.support.hybrid_model import HybridModel
from tests.support.native_model import Logits, NativeModel
from tests.support.stand_in_card import charged, open_card, set_card
from tests.support.tiny_models import TinyModel


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
