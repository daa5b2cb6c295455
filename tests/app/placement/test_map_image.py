"""Every pixel of the map is the colour of the cell that the grid names there, scrolled, zoomed, or with a ghost."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QSize

from app.placement.map_cells import MOVING, MapCells
from app.placement.map_colors import LEVELS, map_palette
from app.placement.map_grid import map_grid
from app.placement.map_image import MapImage
from app.theme.tokens import THEMES
from tests.support.shapes import published_shape

PALETTE = map_palette(THEMES["light"])


def expected(grid, rows, x, y, places, levels, ghost) -> int:
    """Written down pixel by pixel."""
    cell = grid.cell_at(x, y, rows)
    if cell is None:
        return int(PALETTE[0, 0])
    place, level = int(places[cell]), 0 if levels is None else int(levels[cell])
    if ghost is None or ghost[cell] == place:
        return int(PALETTE[place, level])
    return int(PALETTE[int(ghost[cell]), level])


@pytest.mark.parametrize("has_ghost", [False, True])
@pytest.mark.parametrize(("offset", "zoom"), [((0, 0), 1.0), ((300, 90), 3.0)])
@pytest.mark.parametrize("shape", ["qwen3-30b-a3b-q4_k_m", "llama-3.1-8b-q4_k_m"])
def test_every_pixel(shape, offset, zoom, has_ghost):
    cells, random = MapCells(published_shape(shape)), np.random.default_rng(4)
    grid = map_grid(cells, 900, 500, 2.0, zoom)
    image = MapImage(grid, cells.rows, cells.columns, QPoint(*offset), QSize(900, 500))
    for _ in range(2):  # what was drawn before leaves no trace
        places = random.integers(1, 5, (cells.rows, cells.columns)).astype(np.uint8)
        levels = random.integers(0, LEVELS, places.shape).astype(np.uint8)
        ghost = random.integers(1, 3, places.shape).astype(np.uint8) if has_ghost else None
        image.draw(PALETTE, places, levels, ghost)
    height, width = image.pixels.shape
    assert (image.picture.width(), image.picture.height()) == (width, height)
    moving = int(PALETTE[MOVING, 0])
    shown = {True: 0, False: 0}
    for y in range(0, height, 7):
        for x in range(0, width, 3):
            pixel, wanted = (
                int(image.pixels[y, x]),
                expected(grid, cells.rows, x + offset[0], y + offset[1], places, levels, ghost),
            )
            if has_ghost and pixel != wanted:
                assert pixel == moving
            else:
                assert pixel == wanted
            shown[pixel == wanted] += 1
            assert image.picture.pixel(x, y) == pixel
    assert shown[True] and bool(shown[False]) == has_ghost
