"""The theme in force: follows the system or the owner's choice, and tells those who paint themselves."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from app.assets import FONTS, ICONS, STYLESHEET
from app.settings.values import Settings
from app.theme.icons import icon
from app.theme.restyling import Restyling
from app.theme.tokens import CHINESE, MONO, RADII, SANS, SPACING, THEMES, Colors, TypeScale
from app.translation import chosen_language


class Theme(QObject):
    """Current tokens. `changed` is emitted after palette and stylesheet are in place; an open window follows some turns
    of the event loop later."""

    changed = Signal()

    def __init__(self, application: QApplication, settings: Settings) -> None:
        super().__init__(application)
        self._application = application
        self._settings = settings
        self._restyling = Restyling(application)
        self.name = "light"
        self.colors: Colors = THEMES["light"]
        self.type = TypeScale()
        self._chinese: list[str] = []
        settings.on_change(self._setting_changed)
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self.apply)

    def load_fonts(self) -> None:
        for path in sorted(FONTS.glob("*.ttf")):
            QFontDatabase.addApplicationFont(str(path))
        if chosen_language(self._settings["language"]) == "zh_CN":
            self._chinese = [family for family in CHINESE if QFontDatabase.hasFamily(family)][:1]

    def apply(self) -> None:
        chosen = self._settings["theme"]
        self.name = self._system() if chosen == "system" else chosen
        self.colors = THEMES[self.name]
        self.type = replace(self.type, body=self._settings["font_size"])
        application = self._application
        font = self.font(self.type.control)
        if font != application.font():
            application.setFont(font)
        application.setPalette(_palette(self.colors))
        self._restyling.start(stylesheet(self.colors))
        self.changed.emit()

    def icon(self, name: str, color: str = "muted") -> QIcon:
        """One of our icons in the colour of a token."""
        return icon(name, getattr(self.colors, color))

    def color(self, name: str) -> QColor:
        return QColor(getattr(self.colors, name))

    def font(self, pixels: int, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        # Other scripts come from the system, which knows better than any list.
        return QFont(_font((SANS, *self._chinese), pixels, weight))

    def mono(self, pixels: int) -> QFont:
        font = QFont([MONO, *self._chinese])
        font.setPixelSize(pixels)
        font.setStyleHint(QFont.StyleHint.Monospace)
        font.setFixedPitch(True)
        for feature in ("liga", "calt"):  # code is read letter by letter: <= is two characters
            font.setFeature(QFont.Tag(feature), 0)
        return font

    def _system(self) -> str:
        scheme = QGuiApplication.styleHints().colorScheme()
        return "dark" if scheme == Qt.ColorScheme.Dark else "light"

    def _setting_changed(self, name: str, _value: object) -> None:
        if name in ("theme", "font_size"):
            self.apply()


@lru_cache(maxsize=64)
def _font(families: tuple[str, ...], pixels: int, weight: QFont.Weight) -> QFont:
    """Kept, since a new one looks for its face anew when it first draws; copies share what it found."""
    font = QFont(list(families))
    font.setPixelSize(pixels)
    font.setWeight(weight)
    return font


@lru_cache(maxsize=4)
def stylesheet(colors: Colors) -> str:
    """The stylesheet with every @token filled in; an unknown token is an error."""
    text = STYLESHEET.read_text(encoding="utf-8")
    values = {**asdict(colors)}
    values |= {f"space_{k}": f"{v}px" for k, v in asdict(SPACING).items()}
    values |= {f"radius_{k}": f"{v}px" for k, v in asdict(RADII).items()}
    values |= {f"type_{k}": f"{v}px" for k, v in asdict(TypeScale()).items()}
    values["icons"] = ICONS.as_posix()
    values["on_accent_hex"] = colors.on_accent.removeprefix("#")  # names the check mark of that colour
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"@{name}", values[name])
    if "@" in text:
        place = text.index("@")
        raise ValueError(f"the stylesheet names an unknown token: {text[place : place + 30]!r}")
    return text


def _palette(colors: Colors) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for name, value in (
        (role.Window, colors.window),
        (role.WindowText, colors.text),
        (role.Base, colors.card),
        (role.AlternateBase, colors.sidebar),
        (role.Text, colors.text),
        (role.PlaceholderText, colors.muted),
        (role.Button, colors.card),
        (role.ButtonText, colors.text),
        (role.BrightText, colors.danger),
        (role.Highlight, colors.selection),
        (role.HighlightedText, colors.text),
        (role.ToolTipBase, colors.tooltip),
        (role.ToolTipText, colors.on_tooltip),
        (role.Link, colors.link),
        (role.LinkVisited, colors.link),
        (role.Accent, colors.accent),
        (role.Light, colors.border),
        (role.Midlight, colors.border),
        (role.Mid, colors.border),
        (role.Dark, colors.outline),
        (role.Shadow, colors.outline),
    ):
        palette.setColor(name, QColor(value))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(colors.outline))
    return palette
