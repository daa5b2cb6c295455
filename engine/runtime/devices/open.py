"""Opening the device that was asked for, with the rates that a plan for it is made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import psutil

from engine.errors import DeviceError
from engine.hub.folders import cache_folder, data_folder
from engine.memory.available import available_memory
from engine.placement.budget import headroom_bytes
from engine.placement.hardware import catalogue
from engine.placement.hardware.card import CardFacts, with_datasheet
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.hardware.store import hardware_folder, own_profile
from engine.runtime.devices.cuda.find import FoundCard, find_card
from engine.runtime.devices.device import Device, DeviceChoice, LinkRates
from engine.runtime.devices.emulated import EmulatedDevice
from engine.runtime.threads import default_threads
from kernels.cuda.kernel_set import LaunchError

_EMULATED_LIKE = ("Ryzen 7 5800X", "RTX 3060 12GB")  # whose datasheets the emulated device plays
_LARGEST_UNASKED = 2 << 30
_GRANULARITY = 4 << 10


def open_device(kind: str, budget: int | None, threads: int) -> Device | None:
    """None for the CPU alone. DeviceError where there is no such device here."""
    if kind == "cpu":
        return None
    if kind in ("emulated", "emulated-exact"):
        limit = min(_LARGEST_UNASKED, available_memory() // 4) if budget is None else budget
        link = emulated_machine().link
        assert link is not None
        rates = LinkRates(link.to_gpu, link.latency)
        kernels: Literal["fast", "exact"] = "exact" if kind == "emulated-exact" else "fast"
        return EmulatedDevice(limit, threads=threads, link=rates, granularity=_GRANULARITY, kernels=kernels)
    return _open_card(find_card(), budget)


def choose_device(kind: str) -> tuple[str, str]:
    """What "auto" stands for: a card where one can be used, else the processor, and why if a card is there at all."""
    if kind != "auto":
        return kind, ""
    found = find_card()
    if found.is_usable:
        return "cuda", ""
    return "cpu", f"{found.reason} The model runs on the processor. {found.remedy}".rstrip() if found.name else ""


def open_chosen(kind: str, budget: int | None, threads: int) -> tuple[Device | None, str]:
    """The device that `kind` stands for, and what its owner should know. "auto" takes the processor where a card cannot
    be opened; DeviceError where one that was asked for is not here."""
    chosen, warning = choose_device(kind)
    try:
        return open_device(chosen, budget, threads), warning
    except DeviceError as error:
        if kind != "auto":
            raise
        return None, f"{error.cause} The model runs on the processor."


def _open_card(found: FoundCard, budget: int | None) -> Device:
    from engine.runtime.devices.cuda.device import CudaDevice

    if found.driver is None or found.facts is None:
        raise DeviceError(
            found.reason,
            done="The model was not loaded.",
            remedy=f"{found.remedy or 'See what `tessera doctor` says.'} Or run it on the processor.",
        )
    machine = card_machine(found.facts)
    try:
        return CudaDevice(found.driver, cache_folder() / "cubins", found.facts, budget, headroom_bytes(machine))
    except LaunchError as error:
        raise DeviceError(
            f"{found.name} could not be opened: {error}.",
            done="The model was not loaded.",
            remedy="Close other programs that use the GPU, or run the model on the processor.",
        ) from error


def machine_of(device: Device) -> HardwareProfile:
    """The machine that a device belongs to."""
    return card_machine(device.facts) if device.facts is not None else emulated_machine()


def card_machine(facts: CardFacts) -> HardwareProfile:
    """This machine, its processor as measured before, with the card that its driver describes."""
    return _with_card(own_profile(hardware_folder(data_folder()), default_threads())[0], facts)


def with_device(own: HardwareProfile, choice: DeviceChoice) -> HardwareProfile:
    """A machine with the device that was asked for. DeviceError where it is not here."""
    kind, _ = choose_device(choice.kind)
    if kind == "cpu":
        return replace(own, gpu=None, link=None, drives_display=False)
    if kind != "cuda":
        return emulated_machine()
    found = find_card()
    if found.facts is None:
        raise DeviceError(found.reason, remedy=found.remedy or "Plan for a card of the catalogue: --gpu NAME.")
    return _with_card(own, found.facts)


def _with_card(own: HardwareProfile, facts: CardFacts) -> HardwareProfile:
    """With its rates as measured before, where they are this card's."""
    if own.gpu is not None and own.card_measured and own.gpu.name == facts.name:
        return own
    return with_datasheet(own, facts)


def emulated_machine() -> HardwareProfile:
    """The machine that the emulated device belongs to: datasheet rates, this machine's RAM, and a card whose memory is
    bounded by the budget alone."""
    played = catalogue.machine(*_EMULATED_LIKE, ram_bytes=psutil.virtual_memory().total)
    assert played.gpu is not None
    gpu = replace(played.gpu, name="emulated device", memory_bytes=1 << 50)
    return replace(played, gpu=gpu, notes=(f"Planned with the rates of {_EMULATED_LIKE[1]}; it computes on the CPU.",))
