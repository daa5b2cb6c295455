"""Migration: from one placement to another while a conversation goes on, in steps, as one transaction.

Evict what the new placement does not keep, then load what it adds, a few megabytes between two steps of the model,
then commit. Memory in use never exceeds the larger of the two limits. Until the commit the model runs on what both
placements have in common. Where anything fails, what was loaded is given up and the old placement is restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import EngineError
from engine.runtime.hybrid import HybridExecutor
from engine.runtime.placement import Placement

STEP_BYTES = 32 << 20  # copied between two steps of the model: about 3 ms over PCIe 4.0 x16


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """Bytes copied to the device so far, of those that will be; `experts`: how many come to it in all."""

    done_bytes: int
    total_bytes: int
    what: str
    experts: int = 0


class MigrationFailedError(EngineError):
    """A placement could not be reached. `restored`: the one before is in effect again; otherwise a part of it."""

    def __init__(self, reason: str, restored: bool) -> None:
        self.restored = restored
        done = "The placement before is in effect again." if restored else "The rest now runs on the CPU."
        super().__init__(
            reason, done=done, remedy="The conversation goes on. Try a smaller change, or a larger budget."
        )


def migrate(executor: HybridExecutor, target: Placement, limit: int) -> Iterator[MigrationStep]:
    """Each item of the iteration is to be followed by steps of the model. MigrationFailedError after a roll-back."""
    memory, old, old_limit = executor.device.memory, executor.placement, executor.device.memory.limit
    executor.promoter.finish()
    executor.promoter.is_enabled = False
    kept = old.common(target)
    try:
        memory.limit = max(limit, old_limit)
        _evict(executor, kept)
        memory.limit = limit
        yield from _load(executor, kept, target)
    except (EngineError, MemoryError) as failure:
        reason = failure.cause if isinstance(failure, EngineError) else "There is no memory left."
        memory.limit = old_limit
        restored = executor.placement == old
        if not restored:
            try:
                yield from _load(executor, kept, old)
                restored = True
            except (EngineError, MemoryError):
                memory.limit = min(limit, old_limit) if memory.used <= min(limit, old_limit) else old_limit
        raise MigrationFailedError(reason, restored) from failure
    finally:
        executor.promoter.is_enabled = True


def _evict(executor: HybridExecutor, kept: Placement) -> None:
    """From the executor's placement to `kept`, a part of it. On an error everything is as before."""
    old, residency = executor.placement, executor.residency
    if kept == old:
        return
    items = [item for item in residency.items if item not in kept.on_device]
    for bank, memory in residency.banks.items():
        if 0 < kept.slots.get(bank, 0) < len(memory.table.experts):
            residency.gather_hottest(bank, kept.slots[bank], executor.heat.of(bank))
            executor.promoter.changed.add(bank)
    tables = {bank: memory.table for bank, memory in residency.banks.items()}
    home: list[str] = []
    try:
        for item in items:
            home.append(item)
            residency.bring_caches_home(item)
        for bank in tables:
            residency.set_slots(bank, kept.slots.get(bank, 0))
        executor.lower(kept)
    except BaseException:
        for bank, table in tables.items():
            residency.banks[bank].table = table
        for item in home:
            residency.take_caches_back(item)
        raise
    for item in items:
        residency.drop_item(item)
    for bank in tables:
        residency.trim_bank(bank)


def _load(executor: HybridExecutor, kept: Placement, target: Placement) -> Iterator[MigrationStep]:
    """From `kept` to `target`, which includes it. On an error everything is as at the beginning."""
    if kept == target:
        return
    loading = _Loading(executor, kept, target)
    try:
        yield from loading.copy()
        loading.commit()
    except BaseException:
        loading.undo()
        raise


class _Loading:
    def __init__(self, executor: HybridExecutor, kept: Placement, target: Placement) -> None:
        self._executor = executor
        self._residency = executor.residency
        self._kept = kept
        self._target = target
        self._items = sorted(target.on_device - kept.on_device)
        self._staged: dict[str, dict[int, int]] = {}
        self._is_committing = False

    def copy(self) -> Iterator[MigrationStep]:
        """Weights only: caches change with every step of the model and move at the end."""
        residency, executor = self._residency, self._executor
        total = sum(residency.item_bytes(item) for item in self._items)
        grown = {b: n for b, n in self._target.slots.items() if n > self._kept.slots.get(b, 0)}
        more = {bank: slots - self._kept.slots.get(bank, 0) for bank, slots in grown.items()}
        total += sum(count * residency.expert_bytes(bank) for bank, count in more.items())
        experts = sum(more.values())
        done = reported = 0
        for item in self._items:
            for copied in residency.load_item(item):
                done += copied
                if done - reported >= STEP_BYTES:
                    yield MigrationStep(done, total, item, experts)
                    reported = done
        for bank, slots in grown.items():
            if bank not in residency.banks:
                residency.open_bank(bank)
            residency.grow_bank(bank, slots)
            table, staged = residency.banks[bank].table, self._staged.setdefault(bank, {})
            ranked = executor.heat.hottest(bank, table.count, table.count)
            absent = [expert for expert in ranked if table.slots[expert] < 0]
            for slot, expert in zip(range(len(table.experts), slots), absent, strict=False):
                done += residency.copy_expert(bank, expert, slot)
                staged[slot] = expert
                if done - reported >= STEP_BYTES:
                    yield MigrationStep(done, total, bank, experts)
                    reported = done
        yield MigrationStep(done, total, "caches", experts)

    def commit(self) -> None:
        self._is_committing = True
        for item in self._items:
            self._residency.load_caches(item)
        for bank, staged in self._staged.items():
            self._residency.set_slots(bank, self._target.slots[bank], staged)
        self._executor.lower(self._target)

    def undo(self) -> None:
        """Everything loaded is given up. Cannot fail short of RAM for the caches that were on the device already."""
        residency = self._residency
        for item in self._items:
            if item in residency.items:
                residency.bring_caches_home(item)
        for bank in list(residency.banks):
            residency.set_slots(bank, self._kept.slots.get(bank, 0))
        if self._is_committing:  # the programs of `kept` were bound to caches that have moved since
            self._executor.lower(self._kept)
        for item in self._items:
            if item in residency.items:
                residency.drop_item(item)
        for bank in list(residency.banks):
            residency.trim_bank(bank)
