"""Rows of any `llama-bench` binary: llama.cpp's own benchmark, or that of a fork with the same output.

It runs between our rounds, not interleaved with them, so its ratios are less trustworthy than the peer's.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.benchmark.rounds import Measure
from engine.errors import EngineError

_TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class LlamaBench:
    """`binary` is the owner's; nothing of its output is taken for granted."""

    binary: Path
    threads: int
    rounds: int
    kv_type: str = "f16"  # of keys and values

    def __post_init__(self) -> None:
        """EngineError where there is no such program, so that it is said before anything is measured."""
        if self._program() is None:
            raise self._failed("it is no program")

    def speeds(self, model: str, measures: Sequence[Measure]) -> list[tuple[str, Measure, float]]:
        """(system, measure, median tokens per second) for each measure. EngineError where it does not tell them."""
        found = []
        for measure in measures:
            prefill, decode = (measure.tokens, 0) if measure.kind == "prefill" else (0, measure.tokens)
            options = {"-m": model, "-t": self.threads, "-r": self.rounds, "-o": "json"}
            options |= {"-p": prefill, "-n": decode, "-d": measure.depth}
            if self.kv_type != "f16":  # which it does with flash attention only
                options |= {"-ctk": self.kv_type, "-ctv": self.kv_type, "-fa": 1}
            for row in self._run([str(part) for pair in options.items() for part in pair]):
                if (row["n_prompt"], row["n_gen"], row["n_depth"]) == (prefill, decode, measure.depth):
                    found.append((f"llama-bench {row['build_commit']}", measure, statistics.median(row["samples_ts"])))
                    break
            else:
                raise self._failed(f"it did not report the test {options}")
        return found

    def _program(self) -> str | None:
        """The file of this name, or the one that the search path has."""
        return shutil.which(self.binary.absolute()) or shutil.which(self.binary)

    def _run(self, arguments: list[str]) -> list[dict[str, Any]]:
        command = [self._program() or str(self.binary), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._failed(str(error)) from error
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            raise self._failed(f"exit code {done.returncode}: {last[0]}")
        try:
            return [_checked(row) for row in json.loads(done.stdout)]
        except (ValueError, TypeError, KeyError) as error:
            raise self._failed(f"its output is not llama-bench's JSON ({error})") from error

    def _failed(self, reason: str) -> EngineError:
        return EngineError(
            f"{self.binary} could not be measured: {reason}.",
            done="Nothing was reported.",
            remedy="Choose a llama-bench binary of 2025 or newer that runs this model.",
        )


def _checked(row: Any) -> dict[str, Any]:
    """The fields we read, of the types llama-bench prints (tools/llama-bench/README.md there)."""
    samples = [float(sample) for sample in row["samples_ts"]]
    if not samples or min(samples) <= 0:
        raise ValueError("no samples")
    numbers = {key: int(row[key]) for key in ("n_prompt", "n_gen", "n_depth")}
    return {"build_commit": str(row["build_commit"])[:40], "samples_ts": samples, **numbers}
