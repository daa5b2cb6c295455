"""Device: what the executor needs of whatever computes beside the CPU, and how one is named on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import EngineError
from engine.runtime.devices.memory import DeviceMemory, Region
from engine.runtime.devices.streams import Clock, Span, Stream
from kernels._cpu import Batch, Program, ThreadPool

if TYPE_CHECKING:
    from engine.models.graph import Graph
    from engine.placement.hardware.card import CardFacts
    from engine.runtime.expert_slots import Ids, Uses
    from engine.runtime.lowering import CpuProgram
    from engine.runtime.schedule import Schedule
    from engine.runtime.staging import Staging
    from engine.runtime.work import Side

_KINDS = ("auto", "cpu", "cuda", "emulated", "emulated-exact")
_MOST_BYTES = 1 << 40  # of memory of its own: beyond any card, and within what a process has addresses for
_UNITS = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, slots=True)
class LinkRates:
    """What a copy takes: `latency` seconds, then `bandwidth` bytes per second."""

    bandwidth: float = 12e9
    latency: float = 8e-6

    def seconds(self, size: int) -> float:
        return self.latency + size / self.bandwidth


@dataclass(frozen=True, slots=True)
class WorkspaceNeed:
    """The most that programs of a graph have to have room for at once."""

    graph: Graph
    tokens: int
    outputs: int
    blocks: int  # of a sequence that fills the cache
    block_tokens: int


class StepGraph(Protocol):
    """A step of few tokens that a device ran as a whole."""

    @property
    def uses(self) -> tuple[Uses, ...]:
        """The experts that the step used. Good until the next step."""

    @property
    def copied(self) -> tuple[int, int]:
        """Bytes that went to the device, and that came from it."""

    @property
    def busy(self) -> Mapping[str, float]:
        """Seconds that each lane worked, as far as it is known."""

    def spans(self) -> list[Span]:
        """What ran when, of a step that was traced."""


class StepGraphs(Protocol):
    def step(self, batch: Batch, *, is_traced: bool = False) -> StepGraph | None:
        """Runs a step to its end; None, with nothing done, where it has to be run task by task."""

    def close(self) -> None:
        """Before its programs and staging go."""


class Device(Protocol):
    """A device with memory of its own. Activations and weights are copied on different streams, so that a few kilobytes
    that a step waits for never queue behind a tensor."""

    name: str  # "emulated", "cuda:0"
    label: str  # as shown to people
    facts: CardFacts | None  # of a real card
    memory: DeviceMemory
    link: LinkRates
    clock: Clock
    compute: Stream
    activations: Stream
    weights: Stream
    pool: ThreadPool

    keeps_rates: bool  # steps take what its rates say, so that a plan for them can be judged by how long they took
    runs_ahead: bool  # tasks end when they are launched, unless the host waits for what they do
    has_pointer_tables: bool  # programs find experts by tables of their own, so that their ids stay as they are

    def new_program(self, tier: str, workspace: Region) -> Program:
        """An empty program that will run on this device, over weights in its memory, with values in `workspace`."""

    def workspace_bytes(self, program: CpuProgram, need: WorkspaceNeed) -> int:
        """Of the largest batches: all that lies between a program's operations."""

    def prepare(self, program: CpuProgram, need: WorkspaceNeed) -> None:
        """Everything that a first run would have to load. DeviceMemoryError where there is no room for it."""

    def forget(self, program: CpuProgram) -> None:
        """Gives back what a program took; it is not used any more."""

    def set_table(self, program: CpuProgram, bank: str, slots: Ids) -> None:
        """Where the program finds a bank's experts from the next run on; -1: not here."""

    def new_graphs(self, schedule: Schedule, sides: Mapping[bool, Side], table_blocks: int) -> StepGraphs | None:
        """Steps of few tokens as a whole, where the device can; None: it runs tasks."""

    def new_staging(self, name: str, width: int, is_ids: bool, on_device: bool) -> Staging:
        """Where values wait that came here, or that left."""

    def rows_of(self, program: Program, handle: int) -> Any:
        """A value of this device's program, where it is; `copy` of it is an array."""

    def carry(self, crossing: Sequence[tuple[Any, Staging]]) -> int:
        """Copies rows of either side into staging of the other; the bytes copied. On the stream for activations."""

    def follow(self, stream: str, ends: Iterable[object]) -> None:
        """What is launched on a stream from now on comes behind what ended with these."""

    def end(self, stream: str, ends: Iterable[object], *, is_awaited: bool) -> None:
        """What was launched on a stream so far ends with these, for others to `follow`. Returns when it is done if the
        host waits for it, else at once."""

    def synchronize(self) -> None:
        """Returns when everything launched for a step is done."""

    def hold_link(self, stream: str, size: int, elapsed: float) -> None:
        """Called on a copy stream after a copy of `size` bytes that took `elapsed` seconds."""

    @property
    def overhead_bytes(self) -> int:
        """Memory that the driver takes beside what is allocated, as soon as anything is."""

    def rounding_bytes(self, regions: int, growing: int) -> int:
        """What so many regions take beyond their sizes; `growing` of them may end in the middle of their capacity."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What its owner should know of how it runs."""

    def close(self) -> None:
        """Waits for all streams and ends them. Everything it held was given back."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What was asked for: a kind, and how much of its memory may be used (None: as much as is sensible)."""

    kind: str  # "auto", "cpu", "cuda", "emulated" or "emulated-exact"
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
    if kind == "cpu":
        raise EngineError("The processor has no memory of its own to be limited.", remedy="Write --device cpu.")
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)", size)
    if match is None or match[2].upper() not in _UNITS:
        raise EngineError(f"“{size}” is no amount of memory.", remedy="Write it as 256MiB or 6GiB.")
    budget = int(float(match[1]) * _UNITS[match[2].upper()])
    if budget > _MOST_BYTES:
        raise EngineError(
            f"No device has as much memory as {size}.", remedy="1024GiB is the most that can be asked for."
        )
    return DeviceChoice(kind, budget)
