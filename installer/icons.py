"""The application's icon as the pixels that Windows and macOS want: `icons.py FOLDER` or `icons.py FILE.ico`."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication, QIcon

SVG = Path(__file__).resolve().parent.parent / "assets" / "icons" / "tessera.svg"


def main(target: Path) -> None:
    _application = QGuiApplication([])
    icon = QIcon(str(SVG))
    if target.suffix == ".ico":
        target.parent.mkdir(parents=True, exist_ok=True)
        if not icon.pixmap(QSize(256, 256)).save(str(target), "ICO"):
            raise SystemExit(f"{target} could not be written")
        return
    for size in (16, 32, 128, 256, 512):  # the names that iconutil looks for
        for scale in (1, 2):
            name = f"icon_{size}x{size}{'@2x' if scale == 2 else ''}.png"
            icon.pixmap(QSize(size, size) * scale).save(str(target / name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
