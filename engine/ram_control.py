"""RamControl: how much RAM the running model may take, what it takes, and what it gives up to keep within that.

What counts: the weights that the processor reads (page cache, but without it every token would wait for the disk), the
caches of the whole context, and scratch. A budget that these do not fit into is refused, with what would fit. Where the
process takes more nonetheless, it gives up what is kept for later turns, the pages of free blocks, and pages of weights
that a device holds.
"""

from __future__ import annotations

import time

from engine.memory.available import resident_memory
from engine.memory.prefix_cache import PrefixCache
from engine.placement.budget import ram_overhead
from engine.placement.costs import Workload
from engine.placement.explain import does_not_fit, gib
from engine.placement.shape import ModelShape
from engine.runtime.executor import LARGEST_MICRO_BATCH
from engine.runtime.loaded import LoadedModel
from engine.runtime.page_watch import PageWatch
from engine.telemetry.residency import RamUse

_LOOK_SECONDS = 0.25  # between two looks at what the process takes
_PAGES_SECONDS = 0.2  # at least, between two looks at the page cache; asked for are four a second
_CONTEXT_STEP = 512


class RamControl:
    """All calls come from the engine's thread, between steps."""

    def __init__(self, model: LoadedModel, cache: PrefixCache, shape: ModelShape) -> None:
        self.limit: int | None = None
        self._model = model
        self._cache = cache
        self._name = shape.name
        self._context = model.pool.blocks * model.pool.block_tokens
        self._overhead = ram_overhead(shape, Workload(context=self._context, chunk=LARGEST_MICRO_BATCH))
        self._weights = sum(tensor.nbytes for tensor in model.graph.weights.values())
        self._pages = PageWatch(model.graph, model.weights)
        self._looked = self._seen_pages = 0.0

    def use(self) -> RamUse:
        pool, hybrid = self._model.pool, self._model.hybrid
        used = pool.used_host_bytes
        return RamUse(
            weights=self._weights if hybrid is None else hybrid.residency.host_weight_bytes,
            state=pool.host_bytes,
            overhead=self._overhead,
            used_state=used,
            kept_state=min(self._cache.nbytes, used),
            limit=self.limit,
            on_disk=frozenset(self._pages.on_disk),
        )

    def look(self) -> RamUse:
        """The same, after a look at the page cache. Beside a device the memory page asks as often as it is answered,
        for the map's sake: these looks are not for every answer."""
        now = time.monotonic()
        if now - self._seen_pages >= _PAGES_SECONDS:
            self._seen_pages = now
            self._pages.look()
        return self.use()

    def set_limit(self, limit: int | None) -> None:
        """ModelDoesNotFitError, with the limit as before, where the model takes more."""
        use = self.use()
        if limit is not None and use.total > limit:
            context = self._context_within(use, limit)
            what = (f"a context of {context} tokens" if context else "", f"a budget of {gib(use.total)}")
            raise does_not_fit(self._name, use.total, limit, [*filter(None, what)])
        self.limit, self._looked = limit, 0.0
        self.keep_within()

    def _context_within(self, use: RamUse, limit: int) -> int:
        """The longest context for which there is room, in steps; 0 where there is none."""
        room = limit - use.weights - use.overhead
        if room <= 0 or not use.state:
            return 0
        return int(self._context * room / use.state) // _CONTEXT_STEP * _CONTEXT_STEP

    def keep_within(self) -> None:
        """Looks now and then whether the process takes more than the budget, and gives up what can be spared."""
        if self.limit is None or time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        if resident_memory() <= self.limit:
            return
        if self._model.hybrid is not None:
            self._model.hybrid.residency.release_pages()
        self._model.pool.trim()
        while resident_memory() > self.limit and self._cache.evict():
            self._model.pool.trim()
