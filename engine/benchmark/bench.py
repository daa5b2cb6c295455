"""`bench`: a model's prefill and decode speed on this machine, with llama.cpp beside it in the same run."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.benchmark.contestant import Setup
from engine.benchmark.llama_bench import LlamaBench
from engine.benchmark.peak import int8_peak
from engine.benchmark.prediction import Prediction
from engine.benchmark.report import OURS, Results, render
from engine.benchmark.rounds import Comparison, Measure, Turn, best_threads, best_variant, compare, trial
from engine.benchmark.start import Start, measure_starts
from engine.benchmark.traffic import Work
from engine.benchmark.worker import Worker
from engine.errors import EngineError
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.placement.hardware.timing import Pace, model_reader
from engine.placement.shape import ModelShape
from engine.placement.state import VALUE_BYTES
from engine.processors import usable_processors
from engine.runtime.devices.device import parse_device
from engine.runtime.threads import default_threads
from engine.runtime.trace import check_trace
from kernels import _cpu

_NO_FLASH = "no flash attention"
_PEER_LOADS = ("repacked", "not repacked")
_PEER_VARIANTS = (
    *((load, size) for load in _PEER_LOADS for size in (512, 64)),
    *((f"{load}, {_NO_FLASH}", 512) for load in _PEER_LOADS),
)
_PROBE_PASSES = 3
_PAUSE_TOKENS = 48


def run(args: argparse.Namespace) -> int:
    """Prints the table or JSON; returns the exit status."""
    try:
        report = Benchmark.of(args).run(quiet=args.json)
    except EngineError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report, indent=2) if args.json else render(report))
    return 0


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured, of which model, beside whom."""

    path: str
    peer: str | None
    threads: int
    peer_threads: tuple[int, ...]  # that are tried for the peer
    measures: tuple[Measure, ...]
    rounds: int
    tier: str
    device: str
    trace: str | None
    work: Work
    kv_type: Literal["f16", "q8_0"]  # of keys and values
    prediction: Prediction | None = None
    starts: bool = False  # load to first token, memory beyond the file, pause between tokens
    llama_bench: LlamaBench | None = None
    patience: float = math.inf  # seconds after which a measure begins no third round

    @classmethod
    def of(cls, args: argparse.Namespace) -> Benchmark:
        if args.tier and args.tier not in _cpu.tiers():
            raise EngineError(f"There is no tier “{args.tier}” here, only {', '.join(_cpu.tiers())}.")
        parse_device(args.device)
        if args.trace:
            check_trace(str(args.trace))
        with GGUFFile.open(args.model) as gguf:
            spec = load_spec(gguf)
            graph = build_graph(spec)
            shape = ModelShape.from_gguf(gguf)
        value_bytes = _value_bytes(shape, args.kv_type)
        threads = args.threads or default_threads()
        measures = [Measure("prefill", tokens) for tokens in args.prefill]
        measures += [Measure("decode", args.decode, depth) for depth in args.depth]
        _check_lengths(measures, spec.context_length)
        return cls(
            path=str(args.model),
            peer=args.against,
            threads=threads,
            peer_threads=_peer_threads(args.threads),
            measures=tuple(measures),
            rounds=args.rounds,
            tier=args.tier,
            device=args.device,
            trace=str(args.trace) if args.trace else None,
            work=Work.of(graph, value_bytes),
            kv_type=args.kv_type,
            prediction=_prediction(args, shape, value_bytes),
            starts=args.starts,
            llama_bench=LlamaBench(args.llama_bench, threads, args.rounds, args.kv_type) if args.llama_bench else None,
            patience=args.patience or math.inf,
        )

    def run(self, *, quiet: bool) -> dict[str, Any]:
        def tell(line: str) -> None:
            if not quiet:
                print(f"  {line}", file=sys.stderr, flush=True)

        starts = self._starts(tell) if self.starts else []
        peak = int8_peak(self.threads, self.tier)
        with self._workers() as systems:
            chosen: dict[tuple[int, Measure], tuple[Worker, int]] = {}
            comparisons = []
            for measure in self.measures:
                workers = []
                for at, variants in enumerate(systems):
                    if (at, trial(measure)) not in chosen:
                        chosen[at, trial(measure)] = self._best(variants, trial(measure))
                    worker, threads = chosen[at, trial(measure)]
                    worker.use_threads(threads)
                    workers.append(worker)
                comparisons.append(self._compare(workers, measure, tell))
            held = [(w.name, w.held_bytes()) for variants in systems for w in variants] if self.starts else []
        others = self.llama_bench.speeds(self.path, self.measures) if self.llama_bench else []
        return Results(
            model=Path(self.path).name,
            threads=self.threads,
            tier=self.tier or _cpu.best_tier(),
            device=self.device,
            kv_type=self.kv_type,
            peer=self.peer,
            work=self.work,
            peak=peak,
            prediction=self.prediction,
            comparisons=comparisons,
            starts=starts,
            held=held,
            others=others,
        ).report()

    def _best(self, variants: Sequence[Worker], measure: Measure) -> tuple[Worker, int]:
        """The system's fastest variant at this measure, and its fastest number of threads; ours runs as it was told."""
        for worker in variants:
            worker.use_threads(self.threads)
        worker = best_variant(variants, measure)
        counts = (self.threads,) if worker.system == OURS else self.peer_threads
        return worker, best_threads(worker, measure, counts)

    @contextmanager
    def _workers(self) -> Iterator[list[list[Worker]]]:
        """One list of variants per system; ours first."""
        systems: list[list[Worker]] = [[]]
        try:
            systems[0].append(Worker(OURS, self._setup(self.tier, device=self.device, trace=self.trace)))
            if self.peer:
                systems.append([])
                for variant, micro_batch in self._peer_variants():
                    systems[1].append(Worker(self.peer, self._setup(variant, micro_batch=micro_batch)))
            yield systems
        finally:
            for worker in (worker for variants in systems for worker in variants):
                worker.close()

    def _peer_variants(self) -> list[tuple[str, int]]:
        """llama.cpp keeps values in 8 bits with flash attention only."""
        without = self.kv_type == "f16"
        return [(variant, size) for variant, size in _PEER_VARIANTS if without or _NO_FLASH not in variant]

    def _starts(self, tell: Any) -> list[Start]:
        systems = [(OURS, self._setup(self.tier, device=self.device))]
        if self.peer:
            systems += [(self.peer, self._setup(variant)) for variant in _PEER_LOADS]
        return measure_starts(systems, self.rounds, _PAUSE_TOKENS, tell)

    def _setup(self, variant: str, **more: Any) -> Setup:
        longest = max(measure.tokens + measure.depth for measure in self.measures)
        context = -(-(longest + 32) // 256) * 256
        return Setup(self.path, self.threads, context, variant, kv_type=self.kv_type, **more)

    def _compare(self, workers: Sequence[Worker], measure: Measure, tell: Any) -> Comparison:
        def progress(turn: Turn) -> None:
            tell(f"{measure.name}: {turn.label} {turn.speed:.1f} tok/s")

        pool = _cpu.ThreadPool(self.threads)
        reader, pace = model_reader(Path(self.path), pool), Pace(pool, self.tier or "auto")

        def probe() -> float:
            return statistics.median(reader.read() for _ in range(_PROBE_PASSES))

        return compare(workers, measure, self.rounds, probe, progress, self.patience, pace.now)


def _check_lengths(measures: Sequence[Measure], trained: int) -> None:
    """EngineError where a measure is longer than the context that the model was trained for."""
    longest = max(measures, key=lambda measure: measure.tokens + measure.depth)
    if (tokens := longest.tokens + longest.depth) > trained:
        raise EngineError(
            f"“{longest.name}” needs a context of {tokens:,} tokens, and the model was trained for {trained:,}.",
            done="Nothing was measured.",
            remedy="Choose smaller numbers for --prefill, --depth or --decode.",
        )


def _peer_threads(asked: int | None) -> tuple[int, ...]:
    """The threads that were asked for and half of them; unless any were, all logical processors too."""
    threads = asked or default_threads()
    counts = {max(1, threads // 2), threads} | (set() if asked else {usable_processors()})
    return tuple(sorted(counts))


def _value_bytes(shape: ModelShape, kv_type: str) -> float:
    """Of one cached value; EngineError where the model's cannot be kept so."""
    if shape.value_bytes(kv_type) != VALUE_BYTES[kv_type]:
        raise EngineError(
            "This model's keys and values do not fit 8 bits: its heads are not whole blocks of 32 numbers.",
            done="Nothing was measured.",
            remedy="Leave --kv-type out.",
        )
    return VALUE_BYTES[kv_type]


def _prediction(args: argparse.Namespace, shape: ModelShape, value_bytes: float) -> Prediction | None:
    """For the processor alone: an emulated device has no rates of its own to predict from."""
    if args.device != "cpu":
        return None
    return Prediction.of(shape, args.threads or default_threads(), args.tier, value_bytes)
