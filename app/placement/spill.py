"""Memory of the card that the driver has moved to RAM, and cards that have no memory of their own. Free of Qt.

Under WDDM a driver that runs short moves memory to the system without a word, and everything slows down severalfold.
It does not tell how much; but it tells how much of the card is in use by everybody, and we know what we hold.
"""

from __future__ import annotations

from engine.telemetry.residency import ResidencySnapshot
from engine.telemetry.snapshot import GPUReading

_MARGIN = 256 << 20  # readings of different moments, and what drivers round


def spilled_bytes(residency: ResidencySnapshot | None, gpu: GPUReading | None) -> int:
    """What we hold on the card beyond all that is in use there; 0 where that is not known or not much."""
    if residency is None or gpu is None or gpu.used is None or residency.device.startswith("emulated"):
        return 0
    missing = residency.used_bytes - gpu.used
    return missing if missing > _MARGIN else 0


def lower_budget(residency: ResidencySnapshot, spilled: int) -> int:
    """A budget at which what was moved finds room again, in whole MiB."""
    return max(0, residency.budget_bytes - spilled - _MARGIN) >> 20 << 20
