"""Happens-before in a schedule: which tasks are ordered by their streams and events, and which accesses are not."""

from __future__ import annotations

from itertools import combinations, pairwise

from engine.runtime.devices import Task
from engine.runtime.schedule import Schedule


def unordered_accesses(schedule: Schedule) -> list[str]:
    """Pairs of tasks of which one writes memory that the other touches, although either could run first."""
    tasks = [task for stream in schedule.streams.values() for task in stream]
    after = _reachable(schedule, tasks)
    found = []
    for first, second in combinations(range(len(tasks)), 2):
        a, b = tasks[first], tasks[second]
        clash = (a.writes & (b.reads | b.writes)) | (a.reads & b.writes)
        if clash and second not in after[first] and first not in after[second]:
            found.append(f"{a.name} | {b.name}: {sorted(clash)}")
    return found


def _reachable(schedule: Schedule, tasks: list[Task]) -> list[set[int]]:
    """For each task, those that can only begin after its end."""
    number = {id(task): index for index, task in enumerate(tasks)}
    next_of: list[set[int]] = [set() for _ in tasks]
    for stream in schedule.streams.values():
        for before, behind in pairwise(stream):
            next_of[number[id(before)]].add(number[id(behind)])
    waiting = {id(event): number[id(task)] for task in tasks for event in task.waits}
    for task in tasks:
        for event in task.signals:
            if id(event) in waiting:
                next_of[number[id(task)]].add(waiting[id(event)])
    found: list[set[int]] = []
    for start in range(len(tasks)):
        seen: set[int] = set()
        open_ = [start]
        while open_:
            for target in next_of[open_.pop()] - seen:
                seen.add(target)
                open_.append(target)
        found.append(seen)
    return found
