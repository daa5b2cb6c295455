"""What the page shows, as files: a picture, a table, and the timeline for chrome://tracing. Free of widgets."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from app.placement.map_lines import MapText
from engine.placement.simulator import Lane, Timeline


def table_as_csv(table: MapText) -> str:
    """The table with its head."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table.rows())
    return text.getvalue()


def timeline_as_csv(timeline: Timeline, *, seen: bool = False) -> str:
    """One line per task, times in microseconds. `seen`: it has really run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["lane", "task", "start_us", "duration_us", "source"])
    source = "measured" if seen else "simulated"
    for task in timeline.tasks:
        start, length = task.start * 1e6, (task.end - task.start) * 1e6
        writer.writerow([task.lane.value, task.name, f"{start:.3f}", f"{length:.3f}", source])
    return text.getvalue()


def as_chrome_trace(timeline: Timeline, *, seen: bool = False) -> str:
    """The Trace Event Format (Google, 2016): one row per lane, complete events, times in microseconds.

    `seen`: it has really run.
    """
    lanes = {lane: number for number, lane in enumerate(Lane, 1)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": lane.value}}
        for lane, tid in lanes.items()
    ]
    events += [
        {
            "ph": "X",
            "name": task.name,
            "cat": "measured" if seen else "simulated",
            "pid": 1,
            "tid": lanes[task.lane],
            "ts": task.start * 1e6,
            "dur": (task.end - task.start) * 1e6,
        }
        for task in timeline.tasks
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
