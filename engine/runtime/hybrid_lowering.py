"""Lowering of one model for CPU and device: a placement → programs, schedules, and the device memory that they need."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph
from engine.runtime.binding import Binder
from engine.runtime.devices.device import Device, WorkspaceNeed
from engine.runtime.executor import LARGEST_MICRO_BATCH
from engine.runtime.lowering import CpuProgram, capture, crossing_values
from engine.runtime.passing import release_tiles
from engine.runtime.placement import BUFFERS, Placement, split_experts, tile_experts, without_streaming
from engine.runtime.prefetch import Piece, buffer_sizes, pieces_of
from engine.runtime.residency import Residency
from engine.runtime.schedule import Schedule, Scheduler, Stagings
from engine.runtime.segments import place
from engine.runtime.work import Costs, Side, Step, Tables
from kernels._cpu import ThreadPool

_LEAST_WORKSPACE = 4 << 30  # of addresses, for budgets that grow
_LOGIT_ROWS = 8  # answers at once
_STAGED_AT_ONCE = 4  # values that go to the device between the same two segments, twice


@dataclass(frozen=True, slots=True)
class Lowered:
    """A placement as it is run: `decode` for steps of few tokens, and `prefill` where prompts take another schedule."""

    sides: dict[bool, Side]  # whether on the device
    decode: Schedule
    prefill: Schedule | None


class HybridLowering:
    """Lowers placements one after another, and keeps the memory between operations from one to the next."""

    def __init__(
        self,
        graph: Graph,
        device: Device,
        weights: WeightStore,
        kv: KVPool,
        residency: Residency,
        pool: ThreadPool,
        tables: Tables,
        step: Callable[[], Step],
        tier: str,
        costs: Costs,
    ) -> None:
        self._graph = graph
        self._device = device
        self._kv = kv
        self._residency = residency
        self._passing = residency.passing
        self._pool = pool
        self._tables = tables
        self._step = step
        self._tier = tier
        self._costs = costs
        self._binder = Binder(graph, weights, kv, residency)
        self._stagings: Stagings = {}
        self._workspace = device.memory.reserve(max(device.memory.limit, _LEAST_WORKSPACE), "Workspace")

    def lower_for_cpu(self) -> CpuProgram:
        """The whole graph for the CPU. What a device had is still there: see `release`."""
        program = self._capture(self._graph, frozenset())
        self._binder.bind_cpu(program)
        return program

    def lower(self, placement: Placement) -> Lowered:
        """Programs and schedules for what the residency holds. On an error everything is as before."""
        graph = split_experts(self._graph, placement)
        few, device = without_streaming(graph), self._device
        depth, kept = placement.prefetch_depth, len(placement.lent)
        lent = pieces_of(few, placement.lent, kept)
        few_pieces = pieces_of(few, placement.prefetched_for_few, depth - kept, kept)
        pieces = pieces_of(graph, placement.prefetched_for_prompts, depth)
        tiles = self._passing.allocate_tiles({b: self.tile_sizes[b] for b, n in placement.streamed.items() if n})
        buffers = self._passing.buffers
        stagings: Stagings = {}
        try:
            buffers = self._passing.allocate_buffers(buffer_sizes([*pieces, *few_pieces, *lent]))
            crossing = crossing_values(graph)  # memory comes first: without any, a card sleeps
            sides = {
                False: Side("CPU", self._capture(graph, crossing), self._pool, False, graph),
                True: Side("GPU", self._capture(graph, crossing, device), device.pool, True, graph, device),
            }
            self._binder.bind_cpu(sides[False].program)
            self._binder.bind_device(sides[True].program, graph, placement, tiles)
            there = placement.prefetched_for_few | placement.lent
            decode = self._schedule(few, placement.with_items(there), sides, stagings, few_pieces)
            decode = replace(decode, lent=lent)
            prefill = None
            if tiles or placement.prefetched_for_prompts != there:
                on_device = placement.with_items(placement.prefetched_for_prompts)
                prefill = self._schedule(graph, on_device, sides, stagings, pieces)
            device.prepare(sides[True].program, self._need(graph))
            self._reserve(sides[True].program, graph, stagings)
        except BaseException:
            if tiles is not self._passing.tiles:
                release_tiles(tiles)
            if buffers is not self._passing.buffers:
                release_tiles([buffers.values()])
            raise
        for key in self._stagings.keys() - stagings.keys():
            self._stagings[key].release()
        self._stagings = stagings
        self._passing.set_tiles(tiles)
        self._passing.set_buffers(buffers)
        return Lowered(sides, decode, prefill)

    def release(self) -> None:
        """Gives back what lies between operations."""
        for staging in self._stagings.values():
            staging.release()
        self._stagings = {}
        self._workspace.resize(0)
        self._passing.set_tiles([])
        self._passing.set_buffers({})

    # --- what it takes ----------------------------------------------------------------------------------------

    @property
    def tile_sizes(self) -> dict[str, int]:
        """By bank: how many experts a tile holds."""
        return {op.item: tile_experts(self._graph, op) for op in self._graph.ops if isinstance(op, Experts)}

    @property
    def workspace_charged(self) -> int:
        """Device memory in use for what lies between operations."""
        stagings = sum(staging.charged for staging in self._stagings.values())
        return self._workspace.charged + stagings + self._passing.charged

    @property
    def overhead_bytes(self) -> int:
        """Device memory that any placement takes beside what it places: workspace, staging, and rounding up."""
        banks = self.tile_sizes
        graph = split_experts(self._graph, Placement(slots=dict.fromkeys(banks, 1)))
        crossing = crossing_values(graph)
        program = self._capture(graph, crossing, self._device)
        widest = sorted((4 * graph.values[value] for value in crossing), reverse=True)
        staging = _STAGED_AT_ONCE * LARGEST_MICRO_BATCH * sum(widest[:_STAGED_AT_ONCE])
        regions = len(self._graph.weights) + 3 * len(self._graph.kv_layers) + _STAGED_AT_ONCE
        rounding = self._device.rounding_bytes(regions, 3 * len(banks) + 2 * _STAGED_AT_ONCE)
        workspace = self._device.workspace_bytes(program, self._need(graph))
        tile = max((self._residency.expert_bytes(bank) * count for bank, count in banks.items()), default=0)
        return self._device.overhead_bytes + workspace + staging + rounding + BUFFERS * tile

    # --- its parts --------------------------------------------------------------------------------------------

    def _schedule(
        self,
        graph: Graph,
        placement: Placement,
        sides: dict[bool, Side],
        stagings: Stagings,
        pieces: Sequence[Piece],
    ) -> Schedule:
        known = self._stagings | stagings
        scheduler = Scheduler(
            graph,
            sides,
            self._device,
            self._step,
            self._tables,
            time.perf_counter,
            known,
            stagings,
            self._costs,
            pieces,
        )
        cuts = {cut for piece in pieces for cut in (piece.begin, piece.end)}
        return scheduler.schedule(place(graph, placement, cuts))

    def _reserve(self, program: CpuProgram, graph: Graph, stagings: Stagings) -> None:
        """Device memory for what lies between operations, so that no step can fail for want of it."""
        new = [staging for key, staging in stagings.items() if key[0] and key not in self._stagings]
        try:
            for staging in new:
                staging.reserve(LARGEST_MICRO_BATCH)
            size = self._device.workspace_bytes(program, self._need(graph))
            self._workspace.resize(min(self._workspace.capacity, size))
        except BaseException:
            for staging in new:
                staging.release()
            raise

    def _need(self, graph: Graph) -> WorkspaceNeed:
        return WorkspaceNeed(graph, LARGEST_MICRO_BATCH, _LOGIT_ROWS, self._kv.blocks, self._kv.block_tokens)

    def _capture(self, graph: Graph, crossing: frozenset[str], device: Device | None = None) -> CpuProgram:
        return capture(
            graph,
            kv_type=self._kv.quant_type,
            block_tokens=self._kv.block_tokens,
            tier=self._tier,
            crossing=crossing,
            program=device.new_program(self._tier, self._workspace) if device is not None else None,
            has_tables=device is not None and device.has_pointer_tables,
        )
