"""PinStore: the owner's pins of a model, kept between runs."""

from __future__ import annotations

import json
from pathlib import Path

from engine.errors import EngineError
from engine.placement.items import model_items
from engine.placement.pins import Pin, Pins
from engine.placement.shape import ModelShape


class PinStore:
    """One file per model in `folder`."""

    def __init__(self, folder: Path, shape: ModelShape) -> None:
        self.path = folder / f"{shape.fingerprint}.json"
        self._items = model_items(shape)

    def load(self) -> Pins:
        """None at all where there is no file, or none that can be read."""
        try:
            stored = json.loads(self.path.read_text("utf-8"))
            pins = (Pin(str(key), int(expert), bool(on_gpu)) for key, expert, on_gpu in stored["pins"])
            return Pins.of(pin for pin in pins if self._is_known(pin))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, EngineError):
            return Pins()

    def _is_known(self, pin: Pin) -> bool:
        if pin.expert < 0:
            return any(item.key == pin.key for item in self._items.items)
        return any(bank.key == pin.key and pin.expert < bank.count for bank in self._items.banks)

    def save(self, pins: Pins) -> None:
        """Written whole or not at all; without pins, no file. OSError where it cannot be written."""
        if not pins:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        rows = [[pin.key, pin.expert, pin.on_gpu] for pin in sorted(pins.all)]
        draft.write_text(json.dumps({"pins": rows}), "utf-8")
        draft.replace(self.path)
