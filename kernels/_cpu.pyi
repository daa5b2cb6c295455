"""Types of the native module; what each function does is said where it is bound (kernels/cpu/bind_*.cpp)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

Tier = Literal["scalar", "avx2", "avx512", "avx512_vnni"]

def best_tier() -> Tier: ...

# bind_guard.cpp
class GuardedRegion:
    def __init__(self, buffer: Buffer) -> None: ...
    @property
    def lost(self) -> bool: ...
    def view(self) -> NDArray[np.uint8]: ...

# bind_scan.cpp
def skip_strings(buffer: Buffer, position: int, count: int) -> tuple[int, int]: ...
def string_offsets(buffer: Buffer, position: int, count: int) -> NDArray[np.int64]: ...

# bind_probe.cpp
def read_bandwidth(threads: int, bytes: int = ..., repeats: int = ...) -> float: ...
