"""Predicted speeds of a model where it lies, to stand beside what was then measured."""

from __future__ import annotations

from collections.abc import Container, Mapping

from engine.placement.costs import Workload
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.plan import Speeds
from engine.placement.shape import ModelShape
from engine.placement.state import F16_BYTES
from engine.placement.step_times import Choice, StepTimes

_NO_SLOTS: Mapping[str, int] = {}


def predict(
    shape: ModelShape,
    hardware: HardwareProfile,
    *,
    prompt: int,
    depth: int,
    reused: int = 0,
    chunk: int = 512,
    bandwidth: float | None = None,
    on_gpu: Container[str] = (),
    slots: Mapping[str, int] = _NO_SLOTS,
    prefetch_depth: int = 0,
    lent: Container[str] = (),
    value_bytes: float = F16_BYTES,
) -> Speeds:
    """Prefill of `prompt` tokens behind `reused` ones that are in the cache already; decode at `depth`.

    `bandwidth`: bytes per second just probed, on machines whose memory changes its speed between runs. `on_gpu`: keys
    of the items on the GPU, `slots`: experts there by their bank's key; without both the CPU computes everything.
    `prefetch_depth` and `lent`: as in `Choice`, the latter by key.
    `value_bytes`: of one cached value.
    """
    machine = hardware if bandwidth is None else hardware.with_bandwidth(bandwidth)
    context = max(reused + prompt, depth) + 1
    work = Workload(context=context, prompt=prompt, depth=depth, chunk=chunk, value_bytes=value_bytes, reused=reused)
    times = StepTimes(shape, machine, work)
    chosen = Choice(
        tuple(item.key in on_gpu for item in times.model.items),
        tuple(min(slots.get(bank.key, 0), bank.count) for bank in times.model.banks),
        prefetch_depth=prefetch_depth,
        lent=frozenset(index for index, item in enumerate(times.model.items) if item.key in lent),
    )
    return times.speeds(chosen)
