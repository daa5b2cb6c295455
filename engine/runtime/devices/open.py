"""Opening the device that was asked for, with the rates that a plan for it is made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import psutil

from engine.errors import UnsupportedError
from engine.memory.available import available_memory
from engine.placement.hardware.catalogue import machine
from engine.placement.hardware.profile import HardwareProfile
from engine.runtime.devices.device import Device, LinkRates
from engine.runtime.devices.emulated import EmulatedDevice

_EMULATED_LIKE = ("Ryzen 7 5800X", "RTX 3060 12GB")  # whose datasheets the emulated device plays
_LARGEST_UNASKED = 2 << 30
_GRANULARITY = 4 << 10


def open_device(kind: str, budget: int | None, threads: int) -> Device | None:
    """None for the CPU alone. UnsupportedError where there is no such device here."""
    if kind == "cpu":
        return None
    if kind in ("emulated", "emulated-exact"):
        limit = min(_LARGEST_UNASKED, available_memory() // 4) if budget is None else budget
        link = emulated_machine().link
        assert link is not None
        rates = LinkRates(link.to_gpu, link.latency)
        kernels: Literal["fast", "exact"] = "exact" if kind == "emulated-exact" else "fast"
        return EmulatedDevice(limit, threads=threads, link=rates, granularity=_GRANULARITY, kernels=kernels)
    raise UnsupportedError(
        f"There is no device “{kind}” on this computer that Tessera can use.",
        done="The model was not loaded.",
        remedy="Run it on the processor, or see what `tessera doctor` says.",
    )


def emulated_machine() -> HardwareProfile:
    """The machine that the emulated device belongs to: datasheet rates, this machine's RAM, and a card whose memory is
    bounded by the budget alone."""
    played = machine(*_EMULATED_LIKE, ram_bytes=psutil.virtual_memory().total)
    assert played.gpu is not None
    gpu = replace(played.gpu, name="emulated device", memory_bytes=1 << 50)
    return replace(played, gpu=gpu, notes=(f"Planned with the rates of {_EMULATED_LIKE[1]}; it computes on the CPU.",))
