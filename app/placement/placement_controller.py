"""Which model, machine and budget the memory page shows; plans off the main thread, the latest wish wins.

The planner is imported by the first plan: it costs as much as the window itself, which has to be there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.background import Background
from app.engine_client import Arrival, EngineClient
from app.environment import DataFolder
from app.model_controller import ModelController
from app.placement.live_placement import LivePlacement
from app.placement.own_machine import OwnMachine
from app.settings.values import Settings
from app.translation import error_text, tr
from engine.errors import EngineError
from engine.messages import PlacementRolledBack, RamBudgetTold
from engine.placement.pins import Pins

if TYPE_CHECKING:
    from app.placement.forecast import Forecast, Outlook, Preview
    from app.placement.machines import Machine
    from app.placement.map_cells import MapCells
    from engine.placement.costs import Workload
    from engine.placement.hardware.profile import HardwareProfile
    from engine.placement.heat import RecordedHeat
    from engine.placement.shape import ModelShape

THIS_MACHINE = ""  # the choice that stands for the GPU that is really there, or none
MiB = 1 << 20
DEPTH = 2048  # tokens in the cache at which speeds are predicted, where the context allows


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be planned. `budget` None: the recommended one."""

    path: str
    machine: str = THIS_MACHINE
    context: int = 4096
    kv_type: str = "f16"  # of keys and values
    ram: int | None = None
    budget: int | None = None
    taken: int = 0
    device: str = ""  # that the model runs on beside the processor
    overhead: int | None = None
    pins: Pins = field(default_factory=Pins)
    given: int = 0  # the largest budget in force so far on an emulated device, whose card has no size of its own
    rates: int = 0  # how often this machine has been measured
    pace: tuple[tuple[str, float], ...] = ()  # by which the engine corrected its rates (ResidencySnapshot)

    @property
    def ground(self) -> tuple[object, ...]:
        """All but the budget: another ground needs another forecast."""
        where = self.path, self.machine, self.device
        return (
            *where,
            self.context,
            self.kv_type,
            self.ram,
            self.taken,
            self.overhead,
            self.given,
            self.rates,
            self.pace,
        )

    @property
    def is_live(self) -> bool:
        """What is shown is what runs."""
        return bool(self.device) and self.machine == THIS_MACHINE


@dataclass(frozen=True, slots=True)
class Answer:
    wish: Wish
    machine: Machine
    outlook: Outlook
    preview: Preview
    cells: MapCells  # of the map; the same for every answer of a model


class PlacementController(QObject):
    """`answer` is what the page shows. Signals arrive on the main thread."""

    outlook_changed = Signal()  # another model, machine or context: everything is to be drawn anew
    previewed = Signal()  # another budget
    model_missing = Signal(str)  # nothing to show, and why

    def __init__(
        self,
        client: EngineClient,
        models: ModelController,
        settings: Settings,
        folder: DataFolder,
        background: Background,
        own_machine: OwnMachine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.own_machine = own_machine
        own_machine.measured.connect(self.forget_machine)
        self.answer: Answer | None = None
        self.read_shape: Callable[[str], ModelShape] = _read_shape
        self.read_machine: Callable[[], tuple[HardwareProfile, bool]] = lambda: _own_profile(folder.hardware)
        self.read_heat: Callable[[ModelShape], RecordedHeat] = lambda shape: _read_heat(folder.heat, shape)
        self.live = LivePlacement(client, settings, self)
        self.live.changed.connect(self._residency_changed)
        self.live.rolled_back.connect(self._rolled_back)
        self.live.ram_told.connect(self._ram_told)
        self._models = models
        self._settings = settings
        self.background = background
        self._wish: Wish | None = None
        self._planning = False
        self._rates = 0
        self._own: tuple[int, tuple[HardwareProfile, bool]] | None = None  # since which measurement, and what
        self._shape: tuple[str, ModelShape, MapCells] | None = None
        self._forecast: tuple[tuple[object, ...], Machine, Forecast] | None = None
        self._started = False
        self._seen: tuple[str, int, str] | None = None  # the loaded model, its context and device
        models.changed.connect(self._model_changed)

    @property
    def wish(self) -> Wish | None:
        return self._wish

    def start(self) -> None:
        """Called when something of this is first on screen; before, nothing is read or planned."""
        if not self._started:
            self._started = True
            self._model_changed()

    def handle_all(self, arrivals: list[Arrival]) -> None:
        self.live.handle_all(arrivals)

    # --- wishes -----------------------------------------------------------------------------------------------

    def apply(self, budget: int) -> None:
        """The owner has let go of the slider: what runs follows, where this is what is shown."""
        if self._wish is not None and self._wish.is_live:
            self.live.set_budget(budget)
        elif self._wish is not None and self._wish.machine == THIS_MACHINE:
            self._settings.set("gpu_budget", budget // MiB)

    def set_pin(self, key: str, expert: int, on_gpu: bool | None) -> None:
        """An item (`expert` -1) or an expert to the GPU, into RAM, or wherever the plan puts it. What runs follows, and
        keeps it for the next time, where this is what is shown."""
        if self._wish is None:
            return
        pins = self._wish.pins.with_pin(key, expert, on_gpu)
        self._ask(pins=pins)
        if self._wish.is_live:
            self.live.set_pins(pins.all)

    def set_budget(self, budget: int) -> None:
        """Bytes. The preview follows in some milliseconds; of several waiting wishes only the last is planned."""
        self._ask(budget=budget)

    def set_machine(self, machine: str) -> None:
        if self._wish is None or machine != self._wish.machine:
            self._settings.set("shown_machine", machine)
            self._ask(machine=machine, budget=None)

    def set_context(self, context: int) -> None:
        self._ask(context=context)

    def set_ram(self, ram: int | None) -> None:
        """Bytes of RAM that plans keep within; None: what the machine has."""
        self._ask(ram=ram)

    def apply_ram(self, ram: int | None) -> None:
        """What runs is held to it, where this machine is shown."""
        if self._wish is not None and self._wish.machine == THIS_MACHINE:
            self.live.set_ram(ram)

    def load_with_context(self, context: int) -> None:
        """The running model again, with a context of that many tokens."""
        self._settings.set("context_length", context)
        self._models.reload()

    def set_taken(self, taken: int) -> None:
        """GPU memory of other programs, rounded so that a flickering reading does not plan anew."""
        rounded = -(-taken // (64 * MiB)) * 64 * MiB
        if self._wish is not None and self._wish.machine == THIS_MACHINE and rounded != self._wish.taken:
            self._ask(taken=rounded)

    def forget_machine(self) -> None:
        """It was measured: what was planned with the rates before is void."""
        self._rates += 1
        self._ask(rates=self._rates)

    def _model_changed(self) -> None:
        if not self._started:
            return
        info = self._models.info
        seen = None if info is None else (info.path, info.context_length, info.kv_type, info.device)
        if info is None:
            self._wish = self.answer = None
            self.model_missing.emit("")
        elif seen != self._seen:
            stored = self._settings["gpu_budget"] * MiB
            machine = self._settings["shown_machine"]
            budget = stored if stored and machine == THIS_MACHINE else None
            ram = self._settings["ram_budget"] * MiB or None
            self._wish = Wish(
                info.path,
                machine,
                info.context_length,
                info.kv_type,
                ram,
                budget,
                device=info.device,
                rates=self._rates,
            )
            self._residency_changed()
            self._plan()
        self._seen = seen

    def _residency_changed(self) -> None:
        """The device's own overhead replaces the estimate; the first budget and pins told are those in force.
        Plans go by the pace that the engine's go by."""
        residency, wish = self.live.residency, self._wish
        if residency is None or wish is None or not wish.device:
            return
        if wish.overhead is None and self.live.overhead:
            self._ask(overhead=self.live.overhead, budget=residency.budget_bytes, pins=Pins(residency.pins))
        if wish.device.startswith("emulated") and residency.budget_bytes > wish.given:
            self._ask(given=residency.budget_bytes)
        if self._wish is not None and self._wish.pace != residency.pace:
            self._ask(pace=residency.pace)

    def _rolled_back(self, event: PlacementRolledBack) -> None:
        """The pins in force are those of the engine."""
        if self._wish is not None and self._wish.is_live:
            self._ask(pins=Pins(event.residency.pins))

    def _ram_told(self, told: RamBudgetTold) -> None:
        """A budget that was refused is not what is in force."""
        if told.error is not None and self._wish is not None and told.ram is not None:
            self._ask(ram=told.ram.limit)

    def _ask(self, **changes: object) -> None:
        if self._wish is None:
            return
        self._wish = replace(self._wish, **changes)  # type: ignore[arg-type]
        self._plan()

    # --- planning ---------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        if self._planning or self._wish is None:
            return
        self._planning = True
        wish = self._wish
        if self.answer is None:
            self.model_missing.emit(planning())
        self.background.run_in_background(lambda: self._answer(wish), self._answered, self._failed)

    def _answer(self, wish: Wish) -> Answer:
        """Off the main thread; one at a time, so what it keeps needs no lock."""
        from app.placement.forecast import Forecast
        from app.placement.map_cells import MapCells
        from engine.placement.costs import Workload
        from engine.placement.state import VALUE_BYTES
        from engine.runtime.pace import corrected

        if self._own is None or self._own[0] != wish.rates:
            self._own = wish.rates, self.read_machine()
        if self._shape is None or self._shape[0] != wish.path:
            shape = self.read_shape(wish.path)
            self._shape = wish.path, shape, MapCells(shape)
        if self._forecast is None or self._forecast[0] != wish.ground:
            depth = min(wish.context, DEPTH)
            work = Workload(context=wish.context, prompt=depth, depth=depth, value_bytes=VALUE_BYTES[wish.kv_type])
            machine = self._machine(wish, self._shape[1], work)
            if wish.is_live and wish.pace:
                machine = replace(machine, profile=corrected(machine.profile, dict(wish.pace)))
            overhead = wish.overhead if wish.is_live else None
            shape = self._shape[1]
            forecast = Forecast(
                shape,
                machine.profile,
                work,
                ram=wish.ram,
                taken=wish.taken,
                overhead=overhead,
                recorded=self.read_heat(shape),
            )
            self._forecast = wish.ground, machine, forecast
        _, machine, forecast = self._forecast
        budget = forecast.outlook.marks.recommended if wish.budget is None else wish.budget
        return Answer(wish, machine, forecast.outlook, forecast.preview(budget, wish.pins), self._shape[2])

    def _machine(self, wish: Wish, shape: ModelShape, work: Workload) -> Machine:
        from app.placement.machines import emulated, machine_for, with_card

        assert self._own is not None
        if wish.is_live and wish.device.startswith("emulated"):
            return emulated(shape, work, wish.overhead or 0, wish.given)
        own, measured = self._own[1]
        if wish.is_live:
            return with_card(own, measured=measured)
        return machine_for(wish.machine, own, measured=measured)

    def _answered(self, answer: Answer) -> None:
        self._planning = False
        before, wish = self.answer, self._wish
        if wish is None:
            return
        if answer.wish.path == wish.path:
            self.answer = answer
            if before is None or before.outlook is not answer.outlook:
                self.outlook_changed.emit()
            self.previewed.emit()
        if answer.wish != wish:
            self._plan()

    def _failed(self, error: Exception) -> None:
        self._planning = False
        if not isinstance(error, EngineError | OSError):
            raise error
        if self._wish is not None and self._wish.machine != THIS_MACHINE and self._shape is not None:
            self.set_machine(THIS_MACHINE)  # a card that this version's catalogue does not know
            return
        name = Path(self._wish.path).name if self._wish is not None else ""
        self._wish = self.answer = None
        words = error_text(error)
        self.model_missing.emit(f"{name}: {words}" if name else words)


def planning() -> str:
    """What the page says instead of a plan that is not there yet."""
    return tr("Planning…")


def _read_shape(path: str) -> ModelShape:
    from engine.placement.shape_source import read_shape

    return read_shape(path)


def _read_heat(folder: Path, shape: ModelShape) -> RecordedHeat:
    from engine.placement.heat import HeatStore

    return HeatStore(folder, shape).load()


def _own_profile(folder: Path) -> tuple[HardwareProfile, bool]:
    from app.placement.machines import own_profile

    return own_profile(folder)
