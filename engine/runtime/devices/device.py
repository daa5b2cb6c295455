"""Device: what the executor needs of whatever computes beside the CPU, and how one is named on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from engine.errors import EngineError
from engine.runtime.devices.memory import DeviceMemory
from engine.runtime.devices.streams import Clock, Stream
from kernels._cpu import Program, ThreadPool

_KINDS = ("cpu", "emulated", "emulated-exact", "cuda")
_UNITS = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class LinkRates:
    """What a copy takes: `latency` seconds, then `bandwidth` bytes per second."""

    bandwidth: float = 12e9
    latency: float = 8e-6

    def seconds(self, size: int) -> float:
        return self.latency + size / self.bandwidth


class Device(Protocol):
    """A device with memory of its own. Activations and weights are copied on different streams, so that a few kilobytes
    that a step waits for never queue behind a tensor."""

    name: str  # "emulated", "cuda:0"
    label: str  # as shown to people
    memory: DeviceMemory
    link: LinkRates
    clock: Clock
    compute: Stream
    activations: Stream
    weights: Stream
    pool: ThreadPool

    def new_program(self, tier: str) -> Program:
        """An empty program that will run on this device, over weights in its memory."""

    def hold_link(self, stream: str, size: int, elapsed: float) -> None:
        """Called on a copy stream after a copy of `size` bytes that took `elapsed` seconds."""

    def close(self) -> None:
        """Waits for all streams and ends them."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What was asked for: a kind, and how much of its memory may be used (None: as much as is sensible)."""

    kind: str  # "cpu", "emulated", "emulated-exact" or "cuda"
    budget: int | None = None


def parse_device(text: str) -> DeviceChoice:
    """ "cpu", "emulated:256MiB", "cuda". EngineError names what is wrong."""
    kind, _, size = text.strip().partition(":")
    if kind not in _KINDS:
        raise EngineError(
            f"There is no device called “{kind}”.",
            remedy=f"Known are {', '.join(_KINDS)}, each with a size where it has memory of its own: emulated:256MiB.",
        )
    if not size:
        return DeviceChoice(kind)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", size)
    if match is None or match[2].upper() not in _UNITS:
        raise EngineError(f"“{size}” is no amount of memory.", remedy="Write it as 256MiB or 6GiB.")
    return DeviceChoice(kind, int(float(match[1]) * _UNITS[match[2].upper()]))
