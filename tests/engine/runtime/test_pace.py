"""Steps that are not as fast as planned: noticed after five tokens, corrected once, then left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class Paced:
    """A dense model with a part on a device, on a virtual clock: each side takes `slowness` times what is planned."""

    def __init__(self, path: Path) -> None:
        self.machine = machine = emulated_machine()
        assert machine.gpu is not None
        rates = Rates(machine.cpu.bandwidth, machine.gpu.bandwidth, machine.cpu.op_seconds)
        self.slowness = {"CPU": 1.0, "GPU": 1.0}

        def costs(work: SegmentWork) -> float:
            return rates.seconds(work) * self.slowness["GPU" if work.side.on_device else "CPU"]

        self.model = HybridModel(path, clock=VirtualClock(), costs=costs)
        with GGUFFile.open(path) as gguf:
            planner = Planner(ModelShape.from_gguf(gguf), machine, Workload(context=256, prompt=64, depth=16))
        self.control = BudgetControl(self.model.executor, planner, lambda event: None)
        self.control.planner.overhead = self.model.executor.overhead_bytes
        self.control.set_budget(self.control.planner.overhead + 4_000_000)
        self.control.finish()
        assert self.model.executor.schedule is not None, "something is on the device"
        self.state = self.model.new_state()

    def decode(self, count: int) -> int:
        """How many plans were made meanwhile."""
        before = self.control.replans
        for _ in range(count):
            self.control.advance()
            self.model.extend(self.state, [7])
        return self.control.replans - before

    def pace(self, lane: str) -> float:
        return dict(self.control.snapshot().pace).get(lane, 1.0)

    def close(self) -> None:
        self.state.release()
        self.model.close()


@pytest.fixture
def paced(tiny_models: Write, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paced]:
    monkeypatch.setattr(pace, "REPLAN_SHARE", float("inf"))  # planning takes real time, steps do not
    paced = Paced(tiny_models(TinyModel("llama", layers=4)))
    paced.decode(40)
    assert paced.decode(20) == 0
    yield paced
    paced.close()


def test_a_busy_processor_makes_a_new_plan(paced: Paced) -> None:
    """Rates as planned, then a processor that is five times slower: soon a new plan or two, and all is quiet again."""
    before = paced.pace("CPU")
    paced.slowness["CPU"] = 5.0
    assert paced.decode(8) == 1, "six slow steps are enough"
    assert paced.decode(72) <= 2
    assert paced.decode(40) == 0
    assert paced.pace("CPU") > 2 * before
    again = corrected(paced.machine, dict(paced.control.snapshot().pace))
    now = paced.control.planner.hardware
    assert again.gpu is not None and now.gpu is not None
    assert again.cpu.bandwidth == pytest.approx(now.cpu.bandwidth), "told in all, over every correction"
    assert again.gpu.bandwidth == pytest.approx(now.gpu.bandwidth)


def test_a_card_that_another_program_took_is_left_until_its_owner_asks_again(paced: Paced) -> None:
    control, memory, executor = paced.control, paced.model.device.memory, paced.model.executor
    known, budget = paced.pace("GPU"), memory.limit
    paced.slowness["GPU"] = 40.0
    assert paced.decode(8) == 1
    assert control.planner.hardware.gpu is not None and paced.machine.gpu is not None
    assert paced.machine.gpu.bandwidth / control.planner.hardware.gpu.bandwidth > 2 * known
    control.finish()
    assert not executor.placement.uses_device and memory.used == 0
    assert paced.pace("GPU") == 1.0, "nobody knows"
    paced.slowness["GPU"] = 1.0
    control.set_budget(budget)
    control.finish()
    assert executor.placement.uses_device and memory.used > 0
