"""Steps that are not as fast as planned: noticed after five tokens, corrected once, then left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.budget_control import BudgetControl
from engine.gguf import GGUFFile
from engine.placement.costs import Workload
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.runtime import pace
from engine.runtime.devices import VirtualClock
from engine.runtime.devices.open import emulated_machine
from engine.runtime.pace import Pace, corrected
from engine.runtime.rates import Rates
from engine.runtime.step_times import StepTime
from engine.runtime.work import SegmentWork
from tests.support.hybrid_model import HybridModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


def steps(count: int, seconds: float, cpu: float = 0.5, gpu: float = 0.5, tokens: int = 1) -> list[StepTime]:
    return [StepTime(tokens, seconds, {"CPU": cpu * seconds, "GPU": gpu * seconds})] * count


def test_a_plan_that_holds_is_left_alone() -> None:
    watch = Pace(0.010, {"CPU": 0.005, "GPU": 0.005})
    assert watch.correction(steps(50, 0.0112), 1.0) is None
    assert watch.correction(steps(4, 0.030), 1.0) is None, "four tokens prove nothing"
    assert watch.correction(steps(50, 0.030, tokens=128), 1.0) is None, "nor do prompts"


def test_each_lane_is_corrected_by_its_own_factor() -> None:
    watch = Pace(0.010, {"CPU": 0.004, "GPU": 0.005})
    assert watch.correction(steps(5, 0.020, cpu=0.8, gpu=0.25), 1.0) == pytest.approx({"CPU": 4.0, "GPU": 1.0})


def test_a_lane_that_hardly_works_proves_nothing() -> None:
    watch = Pace(0.010, {"CPU": 0.0002, "GPU": 0.0098})
    assert watch.correction(steps(5, 0.020, cpu=0.0005, gpu=0.98), 1.0) == pytest.approx({"GPU": 2.0})
    assert watch.correction(steps(5, 0.020, cpu=0.5, gpu=0.49), 1.0) == pytest.approx({"CPU": 50.0, "GPU": 1.0})


def test_planning_takes_little_of_the_time() -> None:
    watch = Pace(0.010, {"CPU": 0.005}, planning_seconds=0.050)
    assert watch.correction(steps(60, 0.030), 2.4) is None
    assert watch.correction(steps(60, 0.030), 2.6) is not None


def test_a_corrected_machine_predicts_what_was_measured(starter_model: Path) -> None:
    with GGUFFile.open(starter_model) as gguf:
        shape = ModelShape.from_gguf(gguf)
    machine, work = emulated_machine(), Workload(context=256, depth=64)
    fast, slow = (Planner(shape, m, work) for m in (machine, corrected(machine, {"CPU": 3.0})))
    assert slow.choose(0).seconds == pytest.approx(3 * fast.choose(0).seconds, rel=0.01)


@pytest.mark.parametrize(("lane", "factor"), [("CPU", 5.0), ("GPU", 40.0)])
def test_a_busy_side_makes_a_new_plan(
    tiny_models: Write, monkeypatch: pytest.MonkeyPatch, lane: str, factor: float
) -> None:
    """Rates as planned, then a side that another program has taken: one to three plans later all is quiet again."""
    monkeypatch.setattr(pace, "REPLAN_SHARE", float("inf"))  # planning takes real time, steps do not
    path, slowness = tiny_models(TinyModel("llama", layers=4)), {"CPU": 1.0, "GPU": 1.0}
    machine = emulated_machine()
    assert machine.gpu is not None
    rates = Rates(machine.cpu.bandwidth, machine.gpu.bandwidth, machine.cpu.op_seconds)

    def costs(work: SegmentWork) -> float:
        return rates.seconds(work) * slowness["GPU" if work.side.on_device else "CPU"]

    model = HybridModel(path, clock=VirtualClock(), costs=costs)
    with GGUFFile.open(path) as gguf:
        planner = Planner(ModelShape.from_gguf(gguf), machine, Workload(context=256, prompt=64, depth=16))
    control = BudgetControl(model.executor, planner, lambda event: None)
    control.planner.overhead = model.executor.overhead_bytes
    control.set_budget(control.planner.overhead + 4_000_000)
    control.finish()
    assert model.executor.schedule is not None, "something is on the device"

    def decode(count: int) -> int:
        before = control.replans
        for _ in range(count):
            control.advance()
            model.extend(state, [7])
        return control.replans - before

    state = model.new_state()
    decode(40)
    assert decode(20) == 0
    before, placed = dict(control.snapshot().pace).get(lane, 1.0), model.executor.placement.on_device
    slowness[lane] = factor
    assert 1 <= decode(80) <= 3
    assert decode(40) == 0
    told = control.snapshot()
    assert dict(told.pace)[lane] > 2 * before
    assert lane == "CPU" or model.executor.placement.on_device < placed, "nothing stays on a card that is slower"
    again, now = corrected(machine, dict(told.pace)), control.planner.hardware
    assert again.gpu is not None and now.gpu is not None
    assert again.cpu.bandwidth == pytest.approx(now.cpu.bandwidth), "told in all, over every correction"
    assert again.gpu.bandwidth == pytest.approx(now.gpu.bandwidth)
    state.release()
    model.close()
