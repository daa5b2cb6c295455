"""Staging between a card's program and the CPU's: rows in the card's memory, and rows in pinned memory."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import HostBuffer, PinnedMemory
from engine.runtime.devices.cuda.memory import CudaMemory, CudaRegion
from engine.runtime.devices.memory import Region
from engine.runtime.staging import MOST_ROWS, Rows, Staging
from kernels.cuda.memory import DeviceRows, DriverMemory


class CudaStaging(Staging):
    """Copies are put on the stream for activations; who put them there waits for it. `host` is the pinned buffer that
    they come from or go to, `rows` what was put last: in the card's memory, or in `host`."""

    def __init__(
        self, name: str, width: int, is_ids: bool, card: Card, pinned: PinnedMemory, memory: CudaMemory | None
    ) -> None:
        super().__init__(name, width, is_ids, memory)
        self._card = card
        self._pinned = pinned
        self._cuda = memory
        self.host: HostBuffer | None = None

    def reserve(self, rows: int) -> None:
        if rows <= self.capacity:
            return
        rows = 1 << (rows - 1).bit_length()
        size = 4 * rows * self.width
        if self._cuda is not None:
            if self._region is None:
                self._region = self._cuda.reserve(MOST_ROWS * self.width * 4, "Staging")
            self._region.resize(size)
        if self.host is not None:
            self._pinned.free(self.host)
        self.host = self._pinned.allocate(size)
        self.capacity = rows
        self.rows = self.host_rows(0)

    def host_rows(self, count: int) -> Rows:
        """The first rows of `host`."""
        assert self.host is not None
        rows: Rows = self.host.bytes.view(self._type).reshape(-1, self.width)[:count]
        return rows

    def device_rows(self, count: int) -> DeviceRows:
        region = cast(CudaRegion, self._region)
        memory = DriverMemory(self._card.driver, self._card.streams["compute"])
        return DeviceRows(memory, region.view().address, (count, self.width), self._type)

    @property
    def address(self) -> int:
        """Where rows are in the card's memory."""
        return cast(CudaRegion, self._region).address

    def put(self, rows: Any) -> int:
        stream = self._card.streams["activations"]
        count, size = len(rows), int(rows.nbytes)
        host = self.host_rows(count)
        if self._region is not None:
            np.copyto(host, rows)
            here = self.device_rows(count)
            self.rows = here
            self._card.call("cuMemcpyAsync", here.address, host.ctypes.data, size, stream)
        elif isinstance(rows, DeviceRows):
            self.rows = host
            self._card.call("cuMemcpyAsync", host.ctypes.data, rows.address, size, stream)
        else:
            self.rows = host
            np.copyto(host, rows)
        return size

    def release(self) -> None:
        if self.host is not None:
            self._pinned.free(self.host)
            self.host = None
        self.capacity = 0
        if isinstance(self._region, Region):
            self._region.release()
        self._region = None
        self.rows = np.empty((0, self.width), self._type)
