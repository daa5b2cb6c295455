"""Speed beside llama.cpp: `python -m tests.bench.speed [--rounds N] [--only NAME,…] [--json FILE]`.

The starter model and the random-weight shapes of tests/bench/models.py; prefill of 512 tokens and decode of 64.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.arguments import parser as command_line
from engine.benchmark.bench import Benchmark, render
from engine.hub.starter import ensure_starter_model
from tests.bench.models import SHAPES, write_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("build/bench-models"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--only", default="", help="names of models, comma-separated")
    parser.add_argument("--prefill", default="512")
    parser.add_argument("--depth", default="0")
    parser.add_argument("--json", type=Path, help="write all reports to this file")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else ["smollm2-135m", *SHAPES]
    reports = []
    for name in chosen:
        arguments = ["bench", str(_model(name, options.folder)), "--against", "llama.cpp"]
        arguments += ["--rounds", str(options.rounds), "--prefill", options.prefill, "--depth", options.depth]
        arguments += ["--threads", str(options.threads)] if options.threads else []
        report = Benchmark.of(command_line().parse_args(arguments)).run(quiet=False)
        reports.append(report)
        print(render(report), flush=True)
    if options.json:
        options.json.write_text(json.dumps(reports, indent=2))


def _model(name: str, folder: Path) -> Path:
    starter = ensure_starter_model()
    if name == "smollm2-135m":
        return starter
    folder.mkdir(parents=True, exist_ok=True)
    return write_model(folder / f"{name}.gguf", SHAPES[name], starter)


if __name__ == "__main__":
    main()
