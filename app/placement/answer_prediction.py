"""After every answer: what was to be expected of the model where it lay, to stand beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from app.chat.session import ChatSession
from app.model_controller import ModelController
from app.placement.placement_controller import PlacementController
from app.store.records import Message
from engine.errors import EngineError
from engine.messages import ModelInfo
from engine.telemetry.residency import ResidencySnapshot

if TYPE_CHECKING:
    from engine.placement.hardware.profile import HardwareProfile
    from engine.placement.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Answered:
    """What was measured, in tokens: `new` ones of the prompt behind `reused` ones; decode at an average `depth`."""

    new: int
    reused: int
    depth: int


class AnswerPrediction(QObject):
    """Predicts off the main thread; the prediction is kept with the answer, as the measured speeds are."""

    def __init__(self, session: ChatSession, models: ModelController, placement: PlacementController) -> None:
        super().__init__(session)
        self._session = session
        self._models = models
        self._placement = placement
        self._shape: tuple[str, ModelShape] | None = None  # of the model that answered last
        session.finished.connect(self._answered)

    def _answered(self, message: Message) -> None:
        info, answered = self._models.info, _answered(message.details)
        if info is None or answered is None or message.details.get("model_path") != info.path:
            return
        residency = self._placement.live.residency

        def failed(error: Exception) -> None:
            """A file that is gone, or a shape that the planner cannot read: there is no prediction, and no harm."""
            if not isinstance(error, EngineError | OSError):
                raise error

        self._placement.background.run_in_background(
            lambda: self._predict(info, answered, residency),
            lambda details: self._session.add_details(message, details),
            failed,
        )

    def _predict(self, info: ModelInfo, answered: Answered, residency: ResidencySnapshot | None) -> dict[str, Any]:
        if self._shape is None or self._shape[0] != info.path:
            self._shape = info.path, self._placement.read_shape(info.path)
        return predicted_details(self._shape[1], *self._placement.read_machine(), answered, info, residency)


def _answered(details: dict[str, Any]) -> Answered | None:
    if not details.get("decode_speed") or "error" in details:
        return None
    reused = details["reused_tokens"]
    depth = max(0, details["depth"] - details["generated_tokens"] // 2)
    return Answered(max(1, details["prompt_tokens"] - reused), reused, depth)


def predicted_details(
    shape: ModelShape,
    machine: HardwareProfile,
    measured: bool,
    answered: Answered,
    info: ModelInfo,
    residency: ResidencySnapshot | None,
) -> dict[str, Any]:
    """For the message's row: tokens per second, and whether they come from measured rates, a datasheet's, or both.

    An emulated device is predicted as the card that it plays, and "emulated" says so; the compatibility engine is
    "simulated".
    """
    from engine.placement.llama_cpp import compatibility_machine
    from engine.placement.predict import predict
    from engine.placement.state import VALUE_BYTES
    from engine.runtime.devices.open import emulated_machine

    source = "datasheet" if not measured else "mixed" if residency is not None else "measured"
    if info.engine == "compatibility":
        machine, source = compatibility_machine(machine), "simulated"
    elif info.device.startswith("emulated"):
        machine, source = emulated_machine(), "emulated"
    speeds = predict(
        shape,
        machine.with_threads(info.threads),
        prompt=answered.new,
        reused=answered.reused,
        depth=answered.depth,
        on_gpu={item.name for item in residency.items if item.on_device} if residency else (),
        slots={bank.name: bank.slots for bank in residency.banks} if residency else {},
        prefetch_depth=residency.prefetch_depth if residency else 0,
        lent=residency.lent if residency else (),
        value_bytes=VALUE_BYTES[info.kv_type],
    )
    return {"predicted_prefill": speeds.prefill, "predicted_decode": speeds.decode, "predicted_from": source}
