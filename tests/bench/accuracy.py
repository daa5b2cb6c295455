"""Predicted against measured on this machine's CPU, our own engine alone.

    python -m tests.bench.accuracy MODEL… [--threads 1,2] [--prefill 32,128,512] [--depths 0,4096] [--json FILE]

Shared machines change their speed within a turn, so the CPU's pace is looked at between the slices of a prompt and
between tokens, four at a time, and how fast the model's own pages are read before the turn, between tokens, and after
it; what that takes does not count. The token behind a look does not count either: in an answer each follows another.
Each turn is
predicted with what was seen in it; turns whose bandwidths before and after differ by more than 15 % are thrown away,
which is said, and the medians of the rest are judged: decode within 10 %, prefill within 15 %. Depths are reached
without computing them: the cache is filled with numbers, and a step costs the same whatever they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from engine.benchmark.contestant import benchmark_tokens
from engine.benchmark.rounds import PROBE_TOLERANCE, Measure
from engine.gguf import GGUFFile
from engine.memory.sequence_state import SequenceState
from engine.models import build_graph, load_spec
from engine.placement.hardware import probe
from engine.placement.hardware.profile import HardwareProfile, Points
from engine.placement.hardware.timing import Pace, model_reader
from engine.placement.predict import predict
from engine.placement.shape import ModelShape
from engine.runtime.executor import Chunk
from engine.runtime.loaded import LoadedModel, assemble

_DECODED = 16
_TOKENS_BETWEEN_LOOKS = 4
_TRIES = 2
_CHUNK = 512
_PASSES = 5
_TARGETS = {"prefill": 0.15, "decode": 0.10}


class Measured:
    """One model, loaded with so many threads."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        self.threads = threads
        gguf = GGUFFile.open(path)
        spec = load_spec(gguf)
        self.shape = ModelShape.from_gguf(gguf)
        self._model: LoadedModel = assemble(gguf, spec, build_graph(spec), context_length=context, threads=threads)
        self._tokens = benchmark_tokens(context, spec.vocabulary_size)
        self._state = SequenceState(self._model.pool)
        numbers = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float16).view(np.uint8)
        for index in range(len(self._model.graph.kv_layers)):
            for cells in self._model.pool.layer(index):
                flat = cells.reshape(-1)
                for begin in range(0, flat.size, numbers.size):
                    flat[begin : begin + numbers.size] = numbers[: flat.size - begin]
        self._pace, self._looking = Pace(self._model.executor.pool), 0.0
        self._memory = model_reader(path, self._model.executor.pool)
        self._run(0, 32)  # touches pages of the weights, grows scratch
        self._pace.look()
        self._pace.take()
        self.dropped = 0

    def turns(self, measure: Measure, count: int) -> Iterator[tuple[float, float, Points]]:
        """Seconds, bandwidth and pace of `count` turns that kept their bandwidth, or of what a few more tries give.
        `dropped` counts the others."""
        kept = self.dropped = 0
        for _ in range(_TRIES * count):
            self._pace.look()
            before = self._bandwidth()
            seconds, between = self._turn(measure)
            after = self._bandwidth()
            self._pace.look()
            pace = self._pace.take()
            if abs(before - after) <= PROBE_TOLERANCE * max(before, after):
                kept += 1
                yield seconds, statistics.harmonic_mean([before, *between, after]), pace
            else:
                self.dropped += 1
            if kept == count:
                return

    def _bandwidth(self) -> float:
        return statistics.median(self._memory.read() for _ in range(_PASSES))

    def _turn(self, measure: Measure) -> tuple[float, list[float]]:
        """Seconds, and bandwidths between tokens."""
        if measure.kind == "prefill":
            firsts = range(0, measure.tokens, _CHUNK)
            return sum(self._run(first, min(_CHUNK, measure.tokens - first)) for first in firsts), []
        seconds, between = 0.0, []
        for i in range(measure.tokens):
            if i % _TOKENS_BETWEEN_LOOKS == 0:
                if i:
                    self._pace.look()
                    between.append(self._memory.read())
                self._run(measure.depth + i, 1)  # finds the caches as a look leaves them, not as a token does
            seconds += self._run(measure.depth + i, 1)
        return seconds, between

    def _run(self, depth: int, tokens: int) -> float:
        """`tokens` at position `depth`; what lies before is taken to be there."""
        self._state.truncate(min(depth, self._state.reusable(min(depth, self._state.length))))
        if depth > self._state.length:
            skipped = self._tokens[self._state.length : depth]
            self._state.reserve(len(skipped))
            self._state.commit(skipped)
        chunk = self._tokens[depth : depth + tokens]
        self._state.reserve(tokens)
        self._looking = 0.0
        look = self._look if tokens > 1 else lambda: False
        begin = time.perf_counter()
        self._model.executor.run([Chunk(self._state, chunk, tokens - 1)], look)
        seconds = time.perf_counter() - begin - self._looking
        self._state.commit(chunk)
        return seconds

    def _look(self) -> bool:
        """Asked between two slices whether to go on."""
        begin = time.perf_counter()
        self._pace.look()
        self._looking += time.perf_counter() - begin
        return False

    def close(self) -> None:
        self._state.release()
        self._model.close()


def predicted_seconds(
    shape: ModelShape, machine: HardwareProfile, measure: Measure, bandwidth: float, pace: Points
) -> float:
    prefills = measure.kind == "prefill"
    prompt, depth = (measure.tokens, 0) if prefills else (1, measure.depth + measure.tokens // 2)
    guess = predict(shape, machine.with_pace(pace), prompt=prompt, depth=depth, chunk=_CHUNK, bandwidth=bandwidth)
    return measure.tokens / (guess.prefill if prefills else guess.decode)


def row_of(name: str, measured: Measured, machine: HardwareProfile, measure: Measure, rounds: int) -> dict[str, Any]:
    turns = list(measured.turns(measure, rounds))
    row: dict[str, Any] = {"model": name, "threads": measured.threads, "kind": measure.kind, "turns": turns}
    row |= {"tokens": measure.tokens, "depth": measure.depth, "dropped": measured.dropped}
    if turns:
        speeds = [measure.tokens / seconds for seconds, *_ in turns]
        guesses = [
            measure.tokens / predicted_seconds(measured.shape, machine, measure, bandwidth, pace)
            for _, bandwidth, pace in turns
        ]
        row |= {"measured": statistics.median(speeds), "predicted": statistics.median(guesses)}
    return row


def show(row: dict[str, Any]) -> None:
    measure = Measure(row["kind"], row["tokens"], row["depth"])
    start = f"{row['model']:24} {row['threads']} threads  {measure.name:18}"
    if not row["turns"]:
        print(f"{start} no turn kept its bandwidth", flush=True)
        return
    rates = [rate / 1e9 for _, rate, _ in row["turns"]]
    error = row["predicted"] / row["measured"] - 1
    verdict = "" if abs(error) <= _TARGETS[row["kind"]] else "  off"
    speeds = f"predicted {row['predicted']:8.1f}  measured {row['measured']:8.1f} tok/s  {100 * error:+4.0f} %"
    dropped = f"  {row['dropped']} turns thrown away" if row["dropped"] else ""
    print(f"{start} {min(rates):5.1f}–{max(rates):4.1f} GB/s  {speeds}{verdict}{dropped}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prefill", default="32,128,512")
    parser.add_argument("--depths", default="0,4096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the rows, with every turn, and the profiles to this file")
    options = parser.parse_args()
    measures = [Measure("prefill", int(n)) for n in options.prefill.split(",") if n]
    measures += [Measure("decode", _DECODED, int(n)) for n in options.depths.split(",") if n]
    context = max(measure.tokens + measure.depth for measure in measures) + 32
    rows: list[dict[str, Any]] = []
    machines: dict[int, dict[str, Any]] = {}
    for threads in map(int, options.threads.split(",")):
        begin = time.perf_counter()
        machine = HardwareProfile(probe.measure_cpu("this machine", 1 << 40, threads), source="measured")
        machines[threads] = asdict(machine)
        print(f"{threads} threads: the probe took {time.perf_counter() - begin:.1f} s", flush=True)
        for path in options.models:
            measured = Measured(path, threads, context)
            for measure in measures:
                rows.append(row_of(path.stem, measured, machine, measure, options.rounds))
                show(rows[-1])
            measured.close()
            if options.json:
                options.json.write_text(json.dumps({"machines": machines, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
