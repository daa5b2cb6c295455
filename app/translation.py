"""Words for the screen: English in the source, other languages through Qt's translations.

A language is one Qt Linguist file (assets/translations/tessera_*.ts), read as it stands.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.assets import TRANSLATIONS

if TYPE_CHECKING:
    from PySide6.QtCore import QCoreApplication, QTranslator

CONTEXT = "Tessera"
SOURCE_LANGUAGE = "en"


def tr(text: str, **values: object) -> str:
    """`text` in the owner's language, its {names} filled in. Without Qt in the process: English."""
    core = sys.modules.get("PySide6.QtCore")
    translated: str = core.QCoreApplication.translate(CONTEXT, text) if core is not None else text
    return translated.format(**values) if values else translated


def translation_file(language: str) -> Path:
    return TRANSLATIONS / f"tessera_{language}.ts"


def read_translations(path: Path) -> dict[str, str]:
    """Finished translations by their English text."""
    from xml.etree import ElementTree

    found: dict[str, str] = {}
    for message in ElementTree.parse(path).getroot().iter("message"):
        source, translation = message.findtext("source"), message.find("translation")
        if source and translation is not None and translation.get("type") is None and translation.text:
            found[source] = translation.text
    return found


def chosen_language(setting: str) -> str:
    """The language to show: the owner's, or the system's if there is a translation for it."""
    if setting != "system":
        return setting
    from PySide6.QtCore import QLocale

    for name in QLocale.system().uiLanguages():
        parts = name.replace("-", "_").split("_")
        if parts[0] == SOURCE_LANGUAGE:
            return SOURCE_LANGUAGE
        if parts[0] == "zh" and not {"Hant", "TW", "HK", "MO"} & set(parts):
            return "zh_CN"
    return SOURCE_LANGUAGE


def install_language(application: QCoreApplication, setting: str) -> QTranslator | None:
    """Translate everything that is made from now on. Returns what must be kept alive."""
    language = chosen_language(setting)
    path = translation_file(language)
    if language == SOURCE_LANGUAGE or not path.is_file():
        return None
    translator = _make_translator(read_translations(path), language)
    application.installTranslator(translator)
    return translator


def _make_translator(words: dict[str, str], language: str) -> Any:
    from PySide6.QtCore import QLibraryInfo, QTranslator

    class Dictionary(QTranslator):
        """Our own words, and Qt's for the buttons and menus that it makes itself."""

        def __init__(self) -> None:
            super().__init__()
            self._qt = QTranslator(self)
            self._qt.load(f"qtbase_{language}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))

        def translate(self, context: str, source: str, disambiguation: str = "", n: int = -1) -> str | None:
            if context == CONTEXT:
                return words.get(source)
            return self._qt.translate(context, source, disambiguation, n) or None

        def isEmpty(self) -> bool:
            return not words

    return Dictionary()
