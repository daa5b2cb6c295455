"""Pace: are steps as fast as planned? If not, by how much each lane is off, so that a new plan can be made.

Another program may take the GPU, or processor cores, or the datasheet's rates may not be this machine's.
A device that plays another's rates in the time of the CPU (`Device.keeps_rates`) is not judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.placement.hardware.profile import DeviceProfile, HardwareProfile
from engine.runtime.step_times import StepTime

TOLERANCE = 0.15
FEWEST_STEPS = 5
_JUDGED = 10  # steps, the latest ones: a change shows in their median after six
LEAST_SHARE = 0.05  # of a step: a lane that works for less, as to look up a token, tells nothing of its speed
REPLAN_SHARE = 0.02  # of decode time, at most, goes into planning


@dataclass(slots=True)
class Pace:
    """Watches decode steps of one plan. `expected` are its seconds per token, `lanes` those of each lane."""

    expected: float
    lanes: Mapping[str, float]
    planning_seconds: float = 0.0  # that the last plan took

    def correction(self, times: Iterable[StepTime], decoding: float) -> dict[str, float] | None:
        """How many times longer each lane takes than planned; None where the plan holds or too little is known.

        `times` are the latest steps; `decoding` are the seconds of all decode steps under this plan.
        """
        steps = [step for step in times if step.tokens == 1][-_JUDGED:]
        if len(steps) < FEWEST_STEPS or self.planning_seconds > REPLAN_SHARE * decoding:
            return None
        measured = statistics.median(step.seconds for step in steps)
        if abs(measured - self.expected) <= TOLERANCE * self.expected:
            return None
        factors = {}
        for lane, planned in self.lanes.items():
            busy = statistics.median(step.busy.get(lane, 0.0) for step in steps)
            if planned > 0 and busy > 0 and max(planned, busy) >= LEAST_SHARE * measured:
                factors[lane] = busy / planned
        return factors or None


def corrected(hardware: HardwareProfile, factors: Mapping[str, float]) -> HardwareProfile:
    """The machine as it is now: each side slower, or faster, by its lane's factor."""
    cpu = slowed(hardware.cpu, factors.get("CPU", 1.0))
    gpu = slowed(hardware.gpu, factors.get("GPU", 1.0)) if hardware.gpu is not None else None
    return replace(hardware, cpu=cpu, gpu=gpu)


def slowed(device: DeviceProfile, factor: float) -> DeviceProfile:
    """Everything takes `factor` times longer."""
    return replace(device.slowed(factor), bandwidth=device.bandwidth / factor)
