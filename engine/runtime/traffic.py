"""Traffic: bytes that have gone over the link to a device, counted where they are copied."""

from __future__ import annotations

import threading


class Traffic:
    """Totals since the model was loaded; copies run on several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.to_device = 0
        self.to_host = 0

    def count(self, size: int, *, to_device: bool = True) -> None:
        with self._lock:
            if to_device:
                self.to_device += size
            else:
                self.to_host += size

    def count_both(self, to_device: int, to_host: int) -> None:
        with self._lock:
            self.to_device += to_device
            self.to_host += to_host
