"""Where icons, fonts, stylesheets and translations lie."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "assets"
FONTS = FOLDER / "fonts"
ICONS = FOLDER / "icons"
STYLESHEET = FOLDER / "stylesheets" / "tessera.qss"
TRANSLATIONS = FOLDER / "translations"
