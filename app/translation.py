"""Words for the screen: English in the source, other languages through Qt's translations.

A language is two Qt Linguist files, read as they stand: the window's words (assets/translations/tessera_*.ts) and what
the engine says (engine_*.ts).
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.assets import TRANSLATIONS
from app.engine_words import NO_SPACE, EngineWords
from app.environment import system_languages

if TYPE_CHECKING:
    from PySide6.QtCore import QCoreApplication, QTranslator

CONTEXT = "Tessera"
ENGINE_CONTEXT = "Engine"
SOURCE_LANGUAGE = "en"


class _BeforeWindow:
    """Until a language is installed, as when a start fails: `settings` is the file that names it, if it is known."""

    settings: Path | None = None


def speak_before_window(settings: Path) -> None:
    """From now on, until a language is installed, `tr` knows the one that the file `settings` names."""
    _BeforeWindow.settings = settings


@functools.cache
def _early_language(settings: Path) -> str:
    import json

    try:
        language = json.loads(settings.read_text(encoding="utf-8")).get("language")
    except (OSError, ValueError, AttributeError, RecursionError):
        language = None
    return chosen_language(language if isinstance(language, str) else "system")


def _early_words(path: Path) -> dict[str, str]:
    """None where anything is amiss with the file, since they tell of something amiss."""
    try:
        return read_translations(path)
    except (OSError, SyntaxError):  # the latter: what is no XML
        return {}


@functools.cache
def _early_window_words(settings: Path) -> dict[str, str]:
    return _early_words(translation_file(_early_language(settings)))


@functools.cache
def _early_engine_words(settings: Path) -> EngineWords:
    return EngineWords(_early_words(engine_translation_file(_early_language(settings))))


def tr(text: str, **values: object) -> str:
    """`text` in the owner's language, its {names} filled in. In the terminal: English."""
    core = sys.modules.get("PySide6.QtCore")
    translated: str = core.QCoreApplication.translate(CONTEXT, text) if core is not None else text
    if _BeforeWindow.settings is not None:
        translated = _early_window_words(_BeforeWindow.settings).get(text, translated)
    return translated.format(**values) if values else translated


def engine_text(text: str) -> str:
    """What the engine says (an error, a reason, a warning) in the owner's language, where it is known there.

    Also what is said by parts of the window that know no language yet: the settings, before they are read.
    """
    if text and _BeforeWindow.settings is not None:
        return _early_engine_words(_BeforeWindow.settings).translated(text) or text
    core = sys.modules.get("PySide6.QtCore")
    if core is None or not text:
        return text
    translated: str = core.QCoreApplication.translate(ENGINE_CONTEXT, text)
    return translated


def sentences(*parts: str) -> str:
    """Translated sentences one after another; Chinese ones without a space between them."""
    return NO_SPACE.sub("", " ".join(part for part in parts if part))


def error_text(error: BaseException) -> str:
    """An error as one paragraph, in the owner's language."""
    return engine_text(str(error))


def translation_file(language: str) -> Path:
    return TRANSLATIONS / f"tessera_{language}.ts"


def engine_translation_file(language: str) -> Path:
    return TRANSLATIONS / f"engine_{language}.ts"


def qt_translation_file(language: str) -> Path:
    """What Qt's own translation does not have yet; seen where a desktop brings no file dialog."""
    return TRANSLATIONS / f"qt_{language}.ts"


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
    try:
        from PySide6.QtCore import QLocale

        names = list(QLocale.system().uiLanguages())
    except ImportError:  # told of by a failed start
        names = system_languages()
    for name in names:
        parts = name.replace("-", "_").split("_")
        if parts[0] == SOURCE_LANGUAGE:
            return SOURCE_LANGUAGE
        if parts[0] == "zh" and not {"Hant", "TW", "HK", "MO"} & set(parts):
            return "zh_CN"
    return SOURCE_LANGUAGE


def install_language(application: QCoreApplication, setting: str) -> QTranslator | None:
    """Translate everything that is made from now on. Returns what must be kept alive."""
    _BeforeWindow.settings = None
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
        """Our own words, the engine's, and Qt's for the buttons and menus that it makes itself."""

        def __init__(self) -> None:
            super().__init__()
            self._engine: EngineWords | None = None  # read when the engine first has something to say
            self._qt = QTranslator(self)
            self._missing = read_translations(qt_translation_file(language))
            self._qt.load(f"qtbase_{language}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))

        def translate(self, context: str, source: str, disambiguation: str = "", n: int = -1) -> str | None:
            if context == CONTEXT:
                return words.get(source)
            if context == ENGINE_CONTEXT:
                if self._engine is None:
                    self._engine = EngineWords(read_translations(engine_translation_file(language)))
                return self._engine.translated(source)
            return self._qt.translate(context, source, disambiguation, n) or self._missing.get(source)

        def isEmpty(self) -> bool:
            return not words

    return Dictionary()
