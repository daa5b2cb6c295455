"""Colours of the map: place = hue, recent use = depth of colour. Free of widgets; the colours are the theme's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from app.placement.map_cells import DISK, GPU, MOVING, NOWHERE, RAM
from app.theme.tokens import Colors

LEVELS = 64
Pixels = npt.NDArray[np.uint32]
Levels = npt.NDArray[np.uint8]


def rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def ramp(cold: str, hot: str) -> Pixels:
    """LEVELS colours from `cold` to `hot`, as 0xffRRGGBB."""
    share = np.linspace(0, 1, LEVELS)[:, None]
    mixed = np.rint(np.array(rgb(cold)) * (1 - share) + np.array(rgb(hot)) * share).astype(np.uint32)
    return (np.uint32(0xFF000000) | mixed[:, 0] << 16 | mixed[:, 1] << 8 | mixed[:, 2]).astype(np.uint32)


def map_palette(colors: Colors) -> Pixels:
    """[places, LEVELS]."""
    palette = np.zeros((5, LEVELS), np.uint32)
    palette[NOWHERE] = ramp(colors.card, colors.card)
    palette[GPU] = ramp(colors.place_gpu, colors.place_gpu_hot)
    palette[RAM] = ramp(colors.place_ram, colors.place_ram_hot)
    palette[MOVING] = ramp(colors.place_moving, colors.place_moving)
    palette[DISK] = ramp(colors.place_disk, colors.place_disk)
    return palette


def use_levels(heat: npt.NDArray[np.float32], used_now: npt.NDArray[np.bool_] | None = None) -> Levels:
    """Decayed use counts to levels: a square root, so that rare use shows; what was used just now stands out."""
    top = float(heat.max()) if heat.size else 0.0
    if top <= 0:
        return np.zeros(heat.shape, np.uint8)
    levels = (np.sqrt(np.maximum(heat, 0) / top) * (LEVELS * 3 // 4 - 1)).astype(np.uint8)
    if used_now is not None:
        levels[used_now] = LEVELS - 1
    return levels
