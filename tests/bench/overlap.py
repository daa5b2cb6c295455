"""How CPU, GPU and link overlap, by the executor's own trace: a table, and a picture of the lanes.

    python -m tests.bench.overlap [--picture assets/screenshots/overlap.svg] [--links]

The emulated device on a virtual clock: how long a task takes is set, its order and what it waits for are real.
`--links`: with links on which a copy takes 1 to 24 ms: of a dense model's block, where the CPU takes 4 ms and the GPU
0.5; and in a prompt of an expert, where the CPU takes 1.5 ms and the GPU 1.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from engine.hub.starter import ensure_starter_model
from tests.support.overlap import Overlap, decode_with_promotions, dense_step, expert_model, prompt_with_streams
from tests.support.tiny_models import tiny_model_factory

LANES = {"CPU": "#4c78a8", "GPU": "#59a14f", "link": "#e8a33d"}
_COPYING = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)  # ms for a block
_WIDTH, _LEFT, _LANE, _GAP = 900, 60, 22, 44  # pixels


def measure(folder: Path) -> list[Overlap]:
    write = tiny_model_factory(folder, ensure_starter_model)
    model = expert_model(write)
    decode = decode_with_promotions(model, steps=2)
    model.close()
    return [
        decode,
        prompt_with_streams(write),
        dense_step(write, decode=False, prefetched=False),
        dense_step(write, decode=False, copying=3e-3),
    ]


def measure_links(folder: Path) -> list[Overlap]:
    write = tiny_model_factory(folder, ensure_starter_model)
    steps = [
        *(dense_step(write, decode=decode, copying=1e-3 * copying) for decode in (False, True) for copying in _COPYING),
        *(prompt_with_streams(write, 1e-3 * copying) for copying in _COPYING),
    ]
    return [replace(step, name=f"{step.name}, {copying} ms") for step, copying in zip(steps, 3 * _COPYING, strict=True)]


def table(cases: Sequence[Overlap]) -> str:
    """In Markdown. Durations are simulated. Buffers: for how many blocks they pay. Least possible: with any number."""
    lines = [
        "| simulated | buffers | step, ms | CPU | GPU | link | step : busiest lane |"
        " one after the other : busiest lane | step : least possible | step : predicted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        busy = " | ".join(f"{1e3 * case.busy[lane]:.1f}" for lane in LANES)
        ratios = [case.above_busiest, case.serial]
        ratios += [case.seconds / other for other in (case.least, case.predicted) if other is not None]
        shown = [f"{ratio:.2f}" for ratio in ratios] + ["–"] * (4 - len(ratios))
        step = f"{case.depth or '–'} | {1e3 * case.seconds:.1f}"
        lines.append(f"| {case.name} | {step} | {busy} | {' | '.join(shown)} |")
    return "\n".join(lines)


def picture(cases: Sequence[Overlap]) -> str:
    """All cases' lanes below each other, as SVG; each as wide as its steps took."""
    longest = max(case.seconds for case in cases)
    parts, y = [], 0.0
    for case in cases:
        y += _GAP
        title = f"{case.name}: {1e3 * case.seconds:.1f} ms (simulated), {case.above_busiest:.2f} × its busiest lane"
        parts.append(f'<text x="{_LEFT}" y="{y - 8:.0f}">{escape(title)}</text>')
        begin = min(span.begin for span in case.spans)
        for lane, color in LANES.items():
            parts.append(f'<text x="8" y="{y + 15:.0f}">{lane}</text>')
            for span in case.spans:
                if span.lane == lane:
                    x, width = ((at * (_WIDTH - _LEFT) / longest) for at in (span.begin - begin, span.end - span.begin))
                    shape = f'x="{_LEFT + x:.2f}" y="{y + 3:.0f}" width="{max(width, 0.3):.2f}" height="{_LANE - 6}"'
                    parts.append(f'<rect {shape} fill="{color}"><title>{escape(span.name)}</title></rect>')
            y += _LANE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 10}" height="{y + 12:.0f}" '
    style = 'font-family="sans-serif" font-size="13" fill="#777">'
    return "\n".join([head + style, *parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write the lanes as SVG")
    parser.add_argument("--links", action="store_true", help="dense models over links of other speeds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = (measure_links if options.links else measure)(Path(folder))
    print(table(cases))
    if options.picture:
        options.picture.write_text(picture(cases), "utf-8")


if __name__ == "__main__":
    main()
