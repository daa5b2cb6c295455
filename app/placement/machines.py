"""Machines that the page can plan for: this one, and this one with a GPU of the catalogue. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine.placement.budget import MiB, headroom_bytes
from engine.placement.costs import Workload
from engine.placement.hardware import catalogue, store
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.shape import ModelShape
from engine.runtime.devices.device import DeviceChoice
from engine.runtime.devices.open import emulated_machine, with_device
from engine.runtime.threads import default_threads


@dataclass(frozen=True, slots=True)
class Machine:
    """`simulated`: its GPU is not the one in this machine. `measured`: the processor's rates were measured here.
    `emulated`: a model really runs on it, and the processor plays its GPU."""

    profile: HardwareProfile
    simulated: bool
    measured: bool
    emulated: bool = False


def own_profile(folder: Path) -> tuple[HardwareProfile, bool]:
    """This machine as measured before, and True; or the most similar processor's datasheet, and False."""
    return store.own_profile(folder, default_threads())


def machine_for(choice: str, own: HardwareProfile, *, measured: bool) -> Machine:
    """`choice`: a catalogue GPU's name, or "" for what is really there; UnknownDeviceError for any other."""
    if not choice:
        return Machine(own, simulated=False, measured=measured)
    return Machine(catalogue.with_gpu(own, choice), simulated=True, measured=measured)


def with_card(own: HardwareProfile, *, measured: bool) -> Machine:
    """The machine with the card that a model runs on."""
    return Machine(with_device(own, DeviceChoice("cuda")), simulated=False, measured=measured)


def emulated(shape: ModelShape, work: Workload, overhead: int, budget: int) -> Machine:
    """The machine of the emulated device, which has no size of its own: with a card on which the whole model finds
    room, and `budget`, the largest in force so far, is safe."""
    profile = emulated_machine()
    assert profile.gpu is not None
    whole = shape.weight_bytes + shape.state_bytes(work.context, work.value_bytes) + overhead
    card = -(-(max(whole * 9 // 8, budget) + headroom_bytes(profile)) // (64 * MiB)) * 64 * MiB
    gpu = replace(profile.gpu, memory_bytes=card)
    return Machine(replace(profile, gpu=gpu), simulated=False, measured=False, emulated=True)
