"""`python -m tests.bench.map_frames`: milliseconds per update of the memory page's map, at 61 layers × 384 experts."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app.none_guard import hold_singletons
from app.placement.map_cells import MapCells
from app.placement.map_colors import use_levels
from app.placement.map_view import MapView
from app.settings.values import Settings
from app.theme.theme import Theme
from engine.placement.shape import ModelShape

FRAMES = 60


def measure(view: MapView, cells: MapCells, *, ghost: bool) -> list[float]:
    """Seconds of processor time of the main thread per update: new places, new heat, painted whole."""
    random = np.random.default_rng(1)
    slots = {bank.key: random.permutation(bank.count)[: bank.count // 4] for bank in cells.banks.values()}
    places = cells.of_residency(set(), slots)
    screen = QImage(view.size() * view.devicePixelRatioF(), QImage.Format.Format_RGB32)
    screen.setDevicePixelRatio(view.devicePixelRatioF())
    found = []
    for _ in range(FRAMES):
        heat = random.random(places.shape, np.float32)
        start = time.thread_time()
        view.show_places(places, use_levels(heat, heat > 0.98), places[:, ::-1] if ghost else None)
        view.viewport().render(screen)
        found.append(time.thread_time() - start)
    return found


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    application = QApplication([])
    theme = Theme(application, Settings(Path(tempfile.mkdtemp()) / "settings.json"))
    shape = ModelShape.from_shape_file(Path(__file__).parent / "shapes" / "kimi-k2-q4_k_m.json")
    cells = MapCells(shape)
    view = MapView(theme)
    view.resize(860, 420)
    view.show_cells(cells)
    view.show()
    for words, ghost in (("places and heat", False), ("with a preview", True)):
        times = sorted(measure(view, cells, ghost=ghost))
        print(
            f"{len(shape.layers)} × {shape.experts}, {words}: median {statistics.median(times) * 1e3:.2f} ms, "
            f"95 % within {times[int(len(times) * 0.95)] * 1e3:.2f} ms at {view.devicePixelRatioF():g}x"
        )


if __name__ == "__main__":
    main()
