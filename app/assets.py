"""Where icons, fonts, stylesheets and translations lie, and the starter model of an installation."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "assets"
FONTS = FOLDER / "fonts"
ICONS = FOLDER / "icons"
STYLESHEET = FOLDER / "stylesheets" / "tessera.qss"
TRANSLATIONS = FOLDER / "translations"
BUNDLED_MODELS = FOLDER.parent / "models"  # only in the bundle
