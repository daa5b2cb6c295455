"""StepTables: what the tasks of a step ask about experts and weights, as they are for the present step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.runtime.binding import bind_pieces
from engine.runtime.devices.device import Device
from engine.runtime.devices.memory import Region
from engine.runtime.expert_slots import ExpertHeat
from engine.runtime.placement import Placement
from engine.runtime.prefetch import Piece
from engine.runtime.promotion import Promoter
from engine.runtime.residency import Residency
from engine.runtime.schedule import Schedule
from engine.runtime.staging import Rows
from engine.runtime.streaming import Tiles
from engine.runtime.work import Side


class StepTables:
    """Has the face of `work.Tables`; and tells programs of experts that have come or gone."""

    def __init__(self, device: Device, residency: Residency, heat: ExpertHeat, promoter: Promoter) -> None:
        self._device = device
        self._residency = residency
        self._heat = heat
        self._promoter = promoter
        self._placement = Placement()
        self._sides: Mapping[bool, Side] = {}
        self._tiles = Tiles({})
        self._is_streaming = False
        self._schedule: Schedule | None = None  # that the buffers are used by

    def set_placement(self, placement: Placement, sides: Mapping[bool, Side], tile_sizes: Mapping[str, int]) -> None:
        """Other programs, which know nothing yet; which experts come over the link, the next step chooses."""
        self._placement, self._sides, self._tiles = placement, sides, Tiles(tile_sizes)
        self._is_streaming, self._schedule = False, None
        self.apply(placement.slots)

    def apply(self, banks: Iterable[str]) -> None:
        """Tells the CPU's program which experts it computes, those that are absent from their tables; and the device's
        where it finds the others."""
        if self._sides:
            cpu, device = self._sides[False].program, self._sides[True].program
            for bank in banks:
                table = self._residency.banks[bank].table
                self._heat.set_slots(bank, table)
                if bank in cpu.masks:
                    cpu.program.set_expert_mask(cpu.masks[bank], self.absent(bank))
                if bank in device.tables:
                    self._device.set_table(device, bank, table.slots)
        self._promoter.changed.clear()

    def stream(self, streams: bool) -> None:
        """Whether experts come over the link for the next step; if so, also which, and takes them from the CPU."""
        if streams:
            tables = {bank: memory.table for bank, memory in self._residency.banks.items()}
            self._tiles.choose(self._placement.streamed, tables, self._heat)
        if streams or self._is_streaming:
            self._is_streaming = streams
            self.apply(self._placement.streamed)

    def prefetch(self, schedule: Schedule) -> int:
        """Tells the device's program where the next step's pieces will be: each schedule fills the buffers in turn with
        what it needs, so that an item need not come into the same ones in all of them. Items that are lent some are
        copied back into them, between steps: the bytes copied."""
        if schedule is self._schedule:
            return 0
        self._schedule = None  # until all is done: a copy may fail
        side, passing = self._sides[True], self._residency.passing
        bind_pieces(side.program, side.graph, (*schedule.pieces, *schedule.lent), passing.buffers)
        copied = sum(map(passing.load_piece, schedule.lent))
        self._schedule = schedule
        return copied

    # --- for tasks --------------------------------------------------------------------------------------------

    def look_up(self, bank: str, ids: Rows) -> Rows:
        self._promoter.note(bank, ids)
        return self._residency.banks[bank].table.lookup(ids)

    def absent(self, bank: str) -> Rows:
        absent: Rows = self._residency.banks[bank].table.absent
        if self._is_streaming and self._placement.streamed.get(bank):
            absent = absent & ~self._tiles.is_streamed(bank)
        return absent

    def look_up_tile(self, bank: str, tile: int) -> Rows:
        return self._tiles.look_up(bank, tile, self._promoter.used(bank))

    def load_tile(self, bank: str, tile: int, buffer: int) -> int:
        return self._residency.passing.load_tile(bank, self._tiles.experts(bank, tile), buffer)

    def load_piece(self, piece: Piece) -> int:
        return self._residency.passing.load_piece(piece)

    def piece_parts(self, piece: Piece) -> list[tuple[Region, int, Rows]]:
        return self._residency.passing.piece_parts(piece)

    def slots(self, bank: str) -> Rows:
        return self._heat.slots_of(bank)

    def count_carried(self, size: int, *, to_device: bool) -> None:
        self._residency.traffic.count(size, to_device=to_device)
