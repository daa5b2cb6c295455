"""The README's table: speed beside llama.cpp for the starter model and three real shapes with random weights.

    python -m tests.bench.speed [--quick] [--only NAME,…] [--llama-bench PATH] [--json FILE] [--markdown FILE]

Prefill of 32 to 2048 tokens, decode at depth 0 and 4096, load to first token, memory, the pause between tokens, one MoE
layer. Some 20 minutes on a quiet machine of two cores; `--quick` leaves out long prompts and depths.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from app.arguments import parser as command_line
from engine.benchmark.bench import Benchmark
from engine.benchmark.report import markdown, render
from engine.hub.starter import ensure_starter_model
from tests.bench import moe_layer
from tests.bench.models import OTHERS, SHAPES, write_model

STARTER = "smollm2-135m"
MOE_LAYER = "moe-layer"
_LONG = ["--prefill", "32,128,512,2048", "--depth", "0,4096", "--starts"]
_QUICK = ["--prefill", "32,512", "--depth", "0"]
_PATIENCE_SECONDS = "25"  # per measure, two rounds always: what keeps the whole within 20 minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/bench-models"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", default="", help=f"of {', '.join([STARTER, *SHAPES, MOE_LAYER, *OTHERS])}")
    parser.add_argument("--quick", action="store_true", help="short prompts and depth 0 only")
    parser.add_argument("--llama-bench", type=Path, help="add this binary's rows")
    parser.add_argument("--json", type=Path, help="write all reports to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [STARTER, *SHAPES, MOE_LAYER]
    reports: list[dict[str, Any]] = []
    for name in chosen:
        reports.append(moe_layer.report() if name == MOE_LAYER else _measure(name, options))
        print(render(reports[-1]), flush=True)
        if options.json:  # after each model, so that a run that is ended leaves what it has
            options.json.write_text(json.dumps(reports, indent=2))
    table = markdown(reports)
    print(table)
    if options.markdown:
        options.markdown.write_text(table + "\n")


def _measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    arguments = ["bench", str(_model(name, options.folder)), "--against", "llama.cpp", "--decode", "24"]
    arguments += ["--rounds", str(options.rounds), "--patience", _PATIENCE_SECONDS]
    arguments += ["--threads", str(options.threads)] if options.threads else []
    arguments += ["--llama-bench", str(options.llama_bench)] if options.llama_bench else []
    arguments += _QUICK if options.quick else _LONG
    return Benchmark.of(command_line().parse_args(arguments)).run(quiet=False)


def _model(name: str, folder: Path) -> Path:
    starter = ensure_starter_model()
    if name == STARTER:
        return starter
    folder.mkdir(parents=True, exist_ok=True)
    return write_model(folder / f"{name}.gguf", (SHAPES | OTHERS)[name], starter)


if __name__ == "__main__":
    main()
