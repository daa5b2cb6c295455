"""The starts of `tests.bench.speed` alone: load to first token beside llama.cpp, and the pause between two tokens.

    python -m tests.bench.starts MODEL… [--rounds N] [--threads N]

Medians of fresh processes, the file in the system's cache; the peer repacks its weights or not, whichever is faster.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.benchmark.contestant import Setup
from engine.benchmark.report import OURS
from engine.benchmark.start import measure_starts

_CONTEXT = 4352  # as of a bench that decodes at depth 4096
_PAUSE_TOKENS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for model in options.models:
        systems = [(OURS, Setup(str(model), options.threads, _CONTEXT, "auto"))]
        systems += [
            ("llama.cpp", Setup(str(model), options.threads, _CONTEXT, load)) for load in ("repacked", "not repacked")
        ]
        ours, *peers = measure_starts(systems, options.rounds, _PAUSE_TOKENS, lambda line: None)
        first, pause = ours.first_token, ours.pause
        theirs = ", ".join(
            f"{p.first_token * 1e3:.0f} ms ({p.label}, pause {p.pause.between * 1e6:.0f} µs)" for p in peers
        )
        print(
            f"{model.name}: load to first token {first * 1e3:.0f} ms, "
            f"{first / min(p.first_token for p in peers):.2f} of {theirs}; "
            f"pause {pause.between * 1e6:.0f} µs, {pause.between / pause.step:.1%} of a step",
            flush=True,
        )


if __name__ == "__main__":
    main()
