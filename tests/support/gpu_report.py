"""What `make gpu-check` has found so far, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engine.placement.hardware.card import CardFacts
from engine.placement.hardware.profile import ANY_TYPE, HardwareProfile


@dataclass(frozen=True, slots=True)
class Row:
    """Medians; seconds and tokens per second. `predicted`: prefill and decode. `problem`: why there are none."""

    model: str
    system: str
    share: int  # percent of the model on the card
    budget: int
    prefill: float = 0.0
    decode: float = 0.0
    ttft: float = 0.0
    start: float = 0.0
    problem: str = ""
    predicted: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class Report:
    """Written anew after each part, so that whatever ends the check leaves what was found before. `numbers`: what is
    wrong with the logits of hybrid models; None before they were compared. `problems`: parts that broke off."""

    card: CardFacts
    card_name: str
    folder: Path
    prompt: int
    kernels: str = "not run"
    numbers: list[str] | None = None
    machine: HardwareProfile | None = None
    problems: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def part(self, name: str, do: Callable[[], None]) -> None:
        """Runs a part and writes what is there then. One that raises is a problem, and the next goes on."""
        try:
            do()
        except Exception as error:
            self.problems.append(f"{name}: {type(error).__name__}: {error}")
            print(f"{name} broke off: {error}", flush=True)
        self.write()

    @property
    def is_good(self) -> bool:
        wrong = self.kernels.startswith("FAILED") or bool(self.numbers) or bool(self.problems)
        return not wrong and not any(row.problem for row in self.rows)

    def write(self) -> None:
        """Into files of the folder, each replaced at once."""
        found = {name: value for name, value in asdict(self).items() if name not in ("card_name", "folder", "prompt")}
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("gpu-check.md", self.table() + "\n"), ("gpu-check.json", json.dumps(found, indent=1))):
            half = self.folder / f"{name}.part"
            half.write_text(text, "utf-8")
            half.replace(self.folder / name)

    def table(self) -> str:
        """The report in Markdown."""
        numbers = "not compared" if self.numbers is None else "; ".join(self.numbers) or "within their bounds"
        lines = [
            f"{self.card_name}. Kernel tests: {self.kernels}. Logits of hybrid models: {numbers}.",
            "",
            rates(self.machine),
            "",
            *(f"{problem}\n" for problem in self.problems),
            f"| model | on the card | system | prefill {self.prompt}, tok/s | decode, tok/s | TTFT, ms | start, s |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            speeds = [
                f"{measured:.1f}" + (f" ({predicted:.1f} predicted)" if predicted else "")
                for measured, predicted in zip((row.prefill, row.decode), row.predicted, strict=True)
            ]
            numbers_of = (*speeds, f"{1e3 * row.ttft:.0f}", f"{row.start:.2f}")
            cells = (row.problem, "", "", "") if row.problem else numbers_of
            share = f"{row.share} %" + (f" ({row.budget / (1 << 20):.0f} MiB)" if row.budget else "")
            lines.append(f"| {row.model} | {share} | {row.system} | {' | '.join(cells)} |")
        return "\n".join(lines)


def rates(machine: HardwareProfile | None) -> str:
    """What was measured of the card, in a line."""
    if machine is None:
        return "Computer and card were not measured."
    gpu, link, measured = machine.gpu, machine.link, machine.card_measured
    if gpu is None or link is None or not measured:
        return "Nothing of the card was measured: predictions are by its datasheet."
    q4 = ", ".join(f"{n}: {2 * rate / 1e12:.2f}" for n, rate in gpu.kernels.points[ANY_TYPE])
    return (
        f"{' '.join(machine.notes)} Memory {gpu.bandwidth / 1e9:.0f} GB/s, scattered {gpu.scattered_share:.2f} of it; "
        f"an operation {1e6 * gpu.op_seconds:.1f} µs; Q4_K by tokens, TFLOP/s: {q4}; "
        f"link {link.to_gpu / 1e9:.1f} GB/s to the card, {link.to_cpu / 1e9:.1f} back, "
        f"{link.pageable / 1e9:.1f} pageable, {1e6 * link.latency:.1f} µs; "
        f"a switch {1e6 * link.switch_seconds:.1f} µs; disk {machine.disk_bandwidth / 1e9:.2f} GB/s."
    )
