"""What the planner's cost model predicts for a measure, with the speeds of memory and CPU probed in that very turn."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from engine.benchmark.rounds import Comparison, Turn
from engine.hub.folders import data_folder
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.hardware.store import hardware_folder, this_machine
from engine.placement.predict import predict
from engine.placement.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicts one model's speed on this machine's CPU from rates measured before the benchmark."""

    shape: ModelShape
    machine: HardwareProfile
    value_bytes: float  # of one cached value

    @classmethod
    def of(cls, shape: ModelShape, threads: int, tier: str, value_bytes: float) -> Prediction:
        """Measures this machine, or what of the model's types its profile does not know."""
        folder = hardware_folder(data_folder())
        folder.mkdir(parents=True, exist_ok=True)
        return cls(shape, this_machine(folder, threads, tier or "auto", types=shape.type_names), value_bytes)

    def speeds(self, comparison: Comparison, label: str) -> dict[str, float]:
        """Median over the system's turns, each with its own bandwidth: prefill and decode, tokens per second."""
        found = [self._speeds(t) for t in comparison.turns if t.label == label]
        if not found:
            return {}
        prefill, decode = zip(*found, strict=True)
        return {"prefill": statistics.median(prefill), "decode": statistics.median(decode)}

    def _speeds(self, turn: Turn) -> tuple[float, float]:
        measure, machine = turn.measure, self.machine.with_pace(turn.pace)
        prompt = measure.tokens if measure.kind == "prefill" else max(1, measure.depth)
        depth = measure.depth + (measure.tokens // 2 if measure.kind == "decode" else measure.tokens)
        guess = predict(
            self.shape,
            machine,
            prompt=prompt,
            depth=depth,
            bandwidth=turn.bandwidth,
            value_bytes=self.value_bytes,
        )
        return guess.prefill, guess.decode
