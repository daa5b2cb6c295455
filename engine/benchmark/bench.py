"""`bench`: a model's prefill and decode speed on this machine, with llama.cpp beside it in the same run."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.benchmark.contestant import Setup
from engine.benchmark.prediction import Prediction
from engine.benchmark.rounds import Comparison, Measure, Turn, best_variant, compare
from engine.benchmark.traffic import decode_bytes
from engine.benchmark.worker import Worker
from engine.errors import EngineError
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.models.graph import Experts, Router
from engine.runtime.threads import default_threads
from engine.runtime.trace import check_trace
from kernels import _cpu

OURS = "tessera"
_PEER_MICRO_BATCHES = (512, 64)
_KV_VALUE_BYTES = 2.0  # F16
_PROBE_BYTES = 128 << 20


def run(args: argparse.Namespace) -> int:
    """Prints the table or JSON; returns the exit status."""
    try:
        report = Benchmark.of(args).run(quiet=args.json)
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(report, indent=2) if args.json else render(report))
    return 0


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured. A decode step reads `step_bytes` at depth 0, `cache_bytes` more per position."""

    path: str
    peer: str | None
    threads: int
    measures: tuple[Measure, ...]
    rounds: int
    tier: str
    device: str
    trace: str | None
    step_bytes: float
    cache_bytes: float
    prediction: Prediction | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Benchmark:
        if args.tier and args.tier not in _cpu.tiers():
            raise EngineError(f"There is no tier “{args.tier}” here, only {', '.join(_cpu.tiers())}.")
        if args.trace:
            check_trace(str(args.trace))
        with GGUFFile.open(args.model) as gguf:
            graph = build_graph(load_spec(gguf))
        used = next((op.top_k for op in graph.ops if isinstance(op, Router)), 0)
        assert used or not any(isinstance(op, Experts) for op in graph.ops)
        step = decode_bytes(graph, used, 0, _KV_VALUE_BYTES)
        measures = [Measure("prefill", tokens) for tokens in args.prefill]
        measures += [Measure("decode", args.decode, depth) for depth in args.depth]
        return cls(
            path=str(args.model),
            peer=args.against,
            threads=args.threads or default_threads(),
            measures=tuple(measures),
            rounds=args.rounds,
            tier=args.tier,
            device=args.device,
            trace=str(args.trace) if args.trace else None,
            step_bytes=step,
            cache_bytes=decode_bytes(graph, used, 1, _KV_VALUE_BYTES) - step,
            prediction=_prediction(args),
        )

    def run(self, *, quiet: bool) -> dict[str, Any]:
        with self._workers() as systems:
            comparisons = [self._compare(systems, measure, quiet) for measure in self.measures]
        return self._report(comparisons)

    @contextmanager
    def _workers(self) -> Iterator[list[list[Worker]]]:
        """One list of variants per system; ours first."""
        longest = max(measure.tokens + measure.depth for measure in self.measures)
        context = -(-(longest + 32) // 256) * 256
        systems: list[list[Worker]] = [[]]
        try:
            ours = Setup(self.path, self.threads, context, self.tier, device=self.device, trace=self.trace)
            systems[0].append(Worker(OURS, ours))
            if self.peer:
                systems.append([])
                for variant in ("repacked", "not repacked"):
                    for micro_batch in _PEER_MICRO_BATCHES:
                        setup = Setup(self.path, self.threads, context, variant, micro_batch)
                        systems[1].append(Worker(self.peer, setup))
            yield systems
        finally:
            for worker in (worker for variants in systems for worker in variants):
                worker.close()

    def _compare(self, systems: Sequence[Sequence[Worker]], measure: Measure, quiet: bool) -> Comparison:
        chosen = [best_variant(variants, measure) for variants in systems]

        def progress(turn: Turn) -> None:
            if not quiet:
                print(f"  {_name(measure)}: {turn.label} {turn.speed:.1f} tok/s", file=sys.stderr)

        def probe() -> float:
            return _cpu.read_bandwidth(self.threads, bytes=_PROBE_BYTES, repeats=3)

        return compare(chosen, measure, self.rounds, probe, progress)

    def _report(self, comparisons: Sequence[Comparison]) -> dict[str, Any]:
        rows = [row for comparison in comparisons for row in self._rows(comparison)]
        report: dict[str, Any] = {
            "model": Path(self.path).name,
            "machine": {
                "processor": platform.processor() or platform.machine(),
                "threads": self.threads,
                "tier": self.tier or _cpu.best_tier(),
                "device": self.device,
            },
            "rows": rows,
            "dropped_turns": sum(comparison.dropped for comparison in comparisons),
        }
        if self.peer:
            report["ratios"] = {}
            for comparison in comparisons:
                ours, theirs = _labels(comparison)
                key = _name(comparison.measure)
                report["ratios"][key] = comparison.ratio(ours, theirs)
                report["ratios"].setdefault(comparison.measure.kind, report["ratios"][key])
        return report

    def _rows(self, comparison: Comparison) -> Iterator[dict[str, Any]]:
        measure = comparison.measure
        for label in dict.fromkeys(turn.label for turn in comparison.turns):
            speed = comparison.speed(label)
            row: dict[str, Any] = {
                "system": label,
                "prefill": speed if measure.kind == "prefill" else None,
                "decode": speed if measure.kind == "decode" else None,
                "depth": measure.depth,
                "tokens": measure.tokens,
                "bandwidth": [min(comparison.bandwidths()), max(comparison.bandwidths())],
            }
            if measure.kind == "decode":
                needed = self.step_bytes + self.cache_bytes * (measure.depth + measure.tokens / 2)
                row["roofline_share"] = comparison.roofline_share(label, needed)
            if self.prediction is not None and label.startswith(OURS):
                row["predicted"] = self.prediction.speeds(comparison, label)
            yield row


def _prediction(args: argparse.Namespace) -> Prediction | None:
    """For the processor alone: an emulated device has no rates of its own to predict from."""
    if args.device != "cpu":
        return None
    return Prediction.of(str(args.model), args.threads or default_threads(), args.tier)


def _beside(device: str) -> str:
    kind, _, budget = device.partition(":")
    if kind.startswith("emulated"):
        return f", device: emulated ({'exact' if kind.endswith('exact') else 'fast'} kernels) {budget}".rstrip()
    return "" if kind == "cpu" else f", device: {device}"


def _labels(comparison: Comparison) -> tuple[str, str]:
    labels = list(dict.fromkeys(turn.label for turn in comparison.turns))
    ours = next((label for label in labels if label.startswith(OURS)), OURS)
    return ours, next((label for label in labels if label != ours), "")


def render(report: dict[str, Any]) -> str:
    """The report as a table for people."""
    machine = report["machine"]
    lines = [
        f"{report['model']} on {machine['processor']}, {machine['threads']} threads, tier {machine['tier']}"
        + _beside(machine["device"]),
        f"{'measure':<24}{'system':<36}{'tok/s':>9}{'predicted':>11}{'roofline':>10}{'read GB/s':>16}",
    ]
    for row in report["rows"]:
        kind: Literal["prefill", "decode"] = "prefill" if row["prefill"] is not None else "decode"
        name = _name(Measure(kind, row["tokens"], row["depth"]))
        share = f"{row['roofline_share']:.0%}" if "roofline_share" in row else ""
        predicted = f"{row['predicted'][kind]:.1f}" if row.get("predicted") else ""
        low, high = (value / 1e9 for value in row["bandwidth"])
        lines.append(
            f"{name:<24}{row['system']:<36}{row[kind]:>9.1f}{predicted:>11}{share:>10}{f'{low:.1f}–{high:.1f}':>16}"
        )
    for name, ratio in report.get("ratios", {}).items():
        if name not in ("prefill", "decode"):
            lines.append(f"{name:<24}ratio, ours : peer {ratio:.2f}×")
    if report["dropped_turns"]:
        lines.append(f"{report['dropped_turns']} turns thrown away: the memory's speed changed during them")
    return "\n".join(lines)


def _name(measure: Measure) -> str:
    if measure.kind == "prefill":
        return f"prefill {measure.tokens}"
    return f"decode {measure.tokens} at {measure.depth}"
