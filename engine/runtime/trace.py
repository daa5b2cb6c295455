"""Traces in Chrome's trace format (chrome://tracing, ui.perfetto.dev): one row per lane and stream, times in µs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.runtime.devices.streams import Span
from engine.whole_file import check_writable, write_whole

# The format: "Trace Event Format", Google, 2016. "X" is a complete event, "M" names a row.
_PROCESS = 1
_LANES = ("CPU", "GPU", "link")
MOST_SPANS = 200_000


def chrome_trace(spans: Sequence[Span]) -> dict[str, Any]:
    """The trace as JSON's types; the earliest span begins at 0."""
    rows = sorted({(_LANES.index(span.lane), span.lane, span.stream) for span in spans})
    numbers = {(lane, stream): number for number, (_, lane, stream) in enumerate(rows, 1)}
    start = min((span.begin for span in spans), default=0.0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": tid, "args": {"name": _row_name(lane, stream)}}
        for (lane, stream), tid in numbers.items()
    ]
    events += [
        {
            "ph": "X",
            "name": span.name,
            "cat": span.lane,
            "pid": _PROCESS,
            "tid": numbers[span.lane, span.stream],
            "ts": (span.begin - start) * 1e6,
            "dur": (span.end - span.begin) * 1e6,
        }
        for span in spans
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def check_trace(path: str) -> None:
    """EngineError unless a trace can be written there: better known before the measurement than after it."""
    try:
        check_writable(Path(path))
    except OSError as error:
        raise _unwritten(Path(path), error) from error


def write_trace(spans: Sequence[Span], path: Path) -> None:
    """Whole, or EngineError and nothing at all where it cannot be written any more."""
    try:
        write_whole(path, json.dumps(chrome_trace(spans)).encode())
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"No trace can be written to {path}: {error.strerror or error}.",
        remedy="Name a file in a folder with free space that can be written to.",
    )


def busy_seconds(spans: Sequence[Span]) -> dict[str, float]:
    """How long each lane worked; where two streams of a lane overlap, that time counts once."""
    return {lane: _union([s for s in spans if s.lane == lane]) for lane in _LANES}


def _union(spans: Sequence[Span]) -> float:
    total, end = 0.0, float("-inf")
    for span in sorted(spans, key=lambda s: s.begin):
        total += max(0.0, span.end - max(span.begin, end))
        end = max(end, span.end)
    return total


def _row_name(lane: str, stream: str) -> str:
    return lane if lane == stream else f"{lane}: {stream}"
