"""A benchmark's results as data for programs, as a table for people, and as Markdown."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.benchmark.prediction import Prediction
from engine.benchmark.rounds import Comparison, Measure
from engine.benchmark.start import Start
from engine.benchmark.traffic import Work

OURS = "tessera"
LOAD, MEMORY, PAUSE = "load to first token", "memory beyond the file", "pause between tokens"


@dataclass(frozen=True, slots=True)
class Results:
    """`held`: private bytes of each system's variants after all measures. `others`: of a llama-bench binary."""

    model: str
    threads: int
    tier: str
    device: str
    kv_type: str
    peer: str | None
    work: Work
    peak: float  # int8 multiply-adds per second
    prediction: Prediction | None
    comparisons: Sequence[Comparison]
    starts: Sequence[Start]
    held: Sequence[tuple[str, int]]
    others: Sequence[tuple[str, Measure, float]]

    def report(self) -> dict[str, Any]:
        """What `bench --json` prints; ratios are ours : peer, of speeds, or of seconds and bytes where named so."""
        report: dict[str, Any] = {
            "model": self.model,
            "machine": {
                "processor": processor_name(),
                "threads": self.threads,
                "tier": self.tier,
                "device": self.device,
                "kv_type": self.kv_type,
                "int8_peak": self.peak,
            },
            "rows": [row for comparison in self.comparisons for row in self._rows(comparison)],
            "dropped_turns": sum(comparison.dropped for comparison in self.comparisons),
        }
        report["rows"] += [_row(name, measure, speed) for name, measure, speed in self.others]
        report["rows"] += self._start_rows()
        if self.peer or self.others:
            report["ratios"] = self._ratios()
        return report

    def _rows(self, comparison: Comparison) -> Iterator[dict[str, Any]]:
        measure = comparison.measure
        for label in dict.fromkeys(turn.label for turn in comparison.turns):
            row = _row(label, measure, comparison.speed(label))
            row["bandwidth"] = [min(comparison.bandwidths()), max(comparison.bandwidths())]
            if measure.kind == "decode":
                needed = self.work.step_bytes + self.work.cache_bytes * (measure.depth + measure.tokens / 2)
                row["roofline_share"] = comparison.roofline_share(label, needed)
            else:
                row["int8_peak_share"] = row["prefill"] * self.work.products / self.peak
            if self.prediction is not None and label.startswith(OURS):
                row["predicted"] = self.prediction.speeds(comparison, label)
            yield row

    def _start_rows(self) -> Iterator[dict[str, Any]]:
        nothing = {"prefill": None, "decode": None, "depth": 0}
        for start in self.starts:
            pause = {"pause_seconds": start.pause.between, "pause_share": start.pause.between / start.pause.step}
            yield {"system": start.label, **nothing, "first_token_seconds": start.first_token, **pause}
        least: dict[str, int] = {}
        for label, held in self.held:  # variants of one label differ by their micro-batch
            least[label] = min(held, least.get(label, held))
        for label, held in least.items():
            yield {"system": label, **nothing, "resident_bytes": held}

    def _ratios(self) -> dict[str, float | None]:
        """None where no round counts for both, so that JSON stays JSON."""
        ratios: dict[str, float | None] = {"prefill": None, "decode": None}

        def add(measure: Measure, name: str, ratio: float) -> None:
            ratios[name] = ratio if math.isfinite(ratio) else None
            if ratios[measure.kind] is None:
                ratios[measure.kind] = ratios[name]

        for comparison in self.comparisons:
            labels = list(dict.fromkeys(turn.label for turn in comparison.turns))
            ours = next((label for label in labels if _is_ours(label)), OURS)
            measure = comparison.measure
            for label in labels:
                if label != ours:
                    add(measure, measure.name, comparison.ratio(ours, label))
            for system, other, speed in self.others:
                if other == measure:
                    add(measure, f"{measure.name} : {system}", comparison.speed(ours) / speed)
        firsts = [(start.label, start.first_token) for start in self.starts]
        pauses = [(start.label, start.pause.between) for start in self.starts]
        for name, values in ((LOAD, firsts), (MEMORY, self.held), (PAUSE, pauses)):
            ours_found = [value for label, value in values if _is_ours(label)]
            theirs = [value for label, value in values if not _is_ours(label)]
            if ours_found and theirs:
                ratios[name] = ours_found[0] / min(theirs)
        return ratios


def _row(system: str, measure: Measure, speed: float) -> dict[str, Any]:
    return {
        "system": system,
        "prefill": speed if measure.kind == "prefill" else None,
        "decode": speed if measure.kind == "decode" else None,
        "depth": measure.depth,
        "tokens": measure.tokens,
    }


def _is_ours(label: str) -> bool:
    return label.startswith(OURS)


def processor_name() -> str:
    """The processor's name; Linux tells it in /proc/cpuinfo only."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _beside(device: str) -> str:
    kind, _, budget = device.partition(":")
    if kind.startswith("emulated"):
        return f", device: emulated ({'exact' if kind.endswith('exact') else 'fast'} kernels) {budget}".rstrip()
    return "" if kind == "cpu" else f", device: {device}"


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    """Measure, result, prediction, share of what the machine could."""
    if "milliseconds" in row:
        return f"one layer, batch {row['batch']}", f"{row['milliseconds']:.2f} ms", "", ""
    if row["prefill"] is None and row["decode"] is None:
        if "resident_bytes" in row:
            return MEMORY, f"{row['resident_bytes'] / 1e6:.0f} MB", "", ""
        pause = f"pause {row['pause_seconds'] * 1e6:.0f} µs, {100 * row['pause_share']:.1f} % of a token"
        return LOAD, f"{row['first_token_seconds'] * 1e3:.0f} ms", "", pause
    kind = "prefill" if row["prefill"] is not None else "decode"
    measure = Measure("prefill" if kind == "prefill" else "decode", row["tokens"], row["depth"])
    predicted = f"{row['predicted'][kind]:.1f}" if row.get("predicted") else ""
    share = f"{100 * row['roofline_share']:.0f} % of bandwidth" if "roofline_share" in row else ""
    share = f"{100 * row['int8_peak_share']:.0f} % of int8 peak" if "int8_peak_share" in row else share
    return measure.name, f"{row[kind]:.1f} tok/s", predicted, share


def render(report: dict[str, Any]) -> str:
    """The report as a table for people."""
    machine = report["machine"]
    lines = [
        f"{report['model']} on {machine['processor']}, {machine['threads']} threads, tier {machine['tier']}"
        + _beside(machine["device"])
        + (", keys and values in 8 bits" if machine.get("kv_type") == "q8_0" else "")
        + f", int8 peak {machine['int8_peak'] / 1e9:.0f} GMAC/s",
        f"{'measure':<24}{'system':<36}{'result':>14}{'predicted':>11}  {'of what is possible':<30}{'read GB/s':>10}",
    ]
    for row in report["rows"]:
        name, result, predicted, share = _cells(row)
        low, high = (value / 1e9 for value in row.get("bandwidth", (0, 0)))
        read = f"{low:.1f}–{high:.1f}" if high else ""
        lines.append(f"{name:<24}{row['system']:<36}{result:>14}{predicted:>11}  {share:<30}{read:>10}")
    for name, ratio in report.get("ratios", {}).items():
        if name not in ("prefill", "decode") and ratio is not None:
            lines.append(f"{name:<24}ratio, ours : peer {ratio:.2f}")
    if report["dropped_turns"]:
        lines.append(f"{report['dropped_turns']} turns thrown away: the memory's speed changed during them")
    return "\n".join(lines)


def markdown(reports: Sequence[dict[str, Any]]) -> str:
    """One table over several models, a row per measure: ours, the best of the peer's variants, their ratio."""
    lines = [
        "| model | measure | Tessera | peer | ratio, ours : peer | our share of what is possible |",
        "|" + "---|" * 6,
    ]
    for report in reports:
        name = report["model"]
        for measure, ours, theirs, share in _pairs(report["rows"]):
            ratio = report.get("ratios", {}).get(measure)
            lines.append(
                f"| {name} | {measure} | {ours} | {theirs} | {'' if ratio is None else f'{ratio:.2f}'} | {share} |"
            )
            name = ""
    return "\n".join(lines)


def _pairs(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    by_measure: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_measure.setdefault(_cells(row)[0], []).append(row)
    for measure, found in by_measure.items():
        ours = next((row for row in found if _is_ours(row["system"])), None)
        theirs = [row for row in found if not _is_ours(row["system"])]
        if ours is None:
            continue
        _, result, _, share = _cells(ours)
        yield measure, result, "; ".join(f"{_cells(row)[1]} ({row['system']})" for row in theirs), share
