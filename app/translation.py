"""Words for the screen: English in the source, other languages through Qt's translations."""

from __future__ import annotations

import sys

CONTEXT = "Tessera"


def tr(text: str, **values: object) -> str:
    """`text` in the owner's language, its {names} filled in. Without Qt in the process: English."""
    core = sys.modules.get("PySide6.QtCore")
    translated = core.QCoreApplication.translate(CONTEXT, text) if core is not None else text
    return translated.format(**values) if values else translated
