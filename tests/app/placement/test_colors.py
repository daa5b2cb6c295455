"""Places must be told apart by everyone: by eyes that lack one kind of cones, and in both themes.

Matrices: G. Machado, M. Oliveira, L. Fernandes, "A Physiologically-based Model for Simulation of Color Vision
Deficiency", 2009, severity 1, on linear RGB. Distances: CIE 1976, where about 2.3 is just noticeable.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from app.placement.map_cells import DISK, GPU, MOVING, NOWHERE, RAM
from app.placement.map_colors import LEVELS, map_palette, rgb, use_levels
from app.theme.tokens import THEMES

EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)
CLEARLY = 20.0


def seen(color: int, eyes: str) -> np.ndarray:
    """CIE Lab of an 0xRRGGBB colour as those eyes see it."""
    values = np.array([color >> 16 & 255, color >> 8 & 255, color & 255]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.asarray(EYES[eyes]) @ linear, 0, 1) / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", THEMES)
def test_places_differ_at_every_depth_of_use(theme, eyes):
    palette = map_palette(THEMES[theme])
    for level in (0, LEVELS // 2, LEVELS - 1):
        for first, second in combinations((GPU, RAM, MOVING, DISK, NOWHERE), 2):
            distance = np.linalg.norm(seen(int(palette[first, level]), eyes) - seen(int(palette[second, level]), eyes))
            assert distance > CLEARLY, (first, second, level)


@pytest.mark.parametrize("theme", THEMES)
def test_use_changes_the_depth_but_not_the_place(theme):
    palette = map_palette(THEMES[theme])
    for place in (GPU, RAM):
        assert (
            np.linalg.norm(seen(int(palette[place, 0]), "all cones") - seen(int(palette[place, -1]), "all cones")) > 30
        )
    assert rgb(THEMES[theme].place_gpu) == tuple(int(palette[GPU, 0]) >> shift & 255 for shift in (16, 8, 0))


def test_levels_rise_with_use_and_fresh_use_stands_out():
    heat = np.array([0, 1, 4, 16], np.float32)
    levels = use_levels(heat)
    assert levels[0] == 0 and (np.diff(levels.astype(int)) > 0).all() and levels[-1] < LEVELS - 1
    assert use_levels(heat, np.array([True, False, False, False]))[0] == LEVELS - 1
    assert not use_levels(np.zeros(4, np.float32)).any()
