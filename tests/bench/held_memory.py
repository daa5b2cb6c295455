"""Memory beyond the mapped file, beside llama.cpp: python -m tests.bench.held_memory MODEL… [--threads N]

MiB that each system holds in a process of its own, its libraries' own memory not counted: after a prompt of 964 tokens
in a context of 1024, all that it took still held, and while the answer is written. llama.cpp runs with micro-batches of
512, with which it reads prompts fastest, its weights repacked or not, and in its smallest setting, those of 64.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.benchmark.contestant import Setup
from engine.benchmark.report import OURS
from engine.benchmark.worker import Worker

CONTEXT, PROMPT, ANSWER = 1024, 964, 16
SETTINGS = [
    (OURS, "auto", 512),
    ("llama.cpp", "repacked", 512),
    ("llama.cpp", "not repacked", 512),
    ("llama.cpp", "not repacked", 64),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print("| model | system | micro-batch | loaded | after the prompt | during the answer |\n|---|---|---|---|---|---|")
    for model in options.models:
        for system, variant, micro_batch in SETTINGS:
            worker = Worker(system, Setup(str(model), options.threads, CONTEXT, variant, micro_batch))
            held = [worker.held_bytes()]
            worker.prefill(PROMPT)
            held.append(worker.held_bytes())
            worker.decode(ANSWER)
            held.append(worker.held_bytes())
            worker.close()
            figures = " | ".join(f"{size / 2**20:.1f}" for size in held)
            print(f"| {model.stem} | {worker.name} | {micro_batch} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
