"""Predicted speeds of a model that runs on the CPU alone, to stand beside what was then measured."""

from __future__ import annotations

from engine.placement.costs import Workload
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.plan import Speeds
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice, StepTimes


def predict_on_cpu(
    shape: ModelShape,
    hardware: HardwareProfile,
    *,
    prompt: int,
    depth: int,
    chunk: int = 512,
    bandwidth: float | None = None,
) -> Speeds:
    """Prefill of `prompt` tokens from an empty cache, decode at `depth`.

    `bandwidth`: bytes per second just probed, on machines whose memory changes its speed between runs.
    """
    machine = hardware if bandwidth is None else hardware.with_bandwidth(bandwidth)
    work = Workload(context=max(prompt, depth) + 1, prompt=prompt, depth=depth, chunk=chunk)
    times = StepTimes(shape, machine, work)
    return times.speeds(Choice((False,) * len(times.model.items), (0,) * len(times.model.banks)))
