"""Nothing on screen is left in English where another language is chosen."""

from __future__ import annotations

import re

import pytest
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QLabel, QLineEdit, QTextEdit, QWidget

from app.assets import TRANSLATIONS
from app.chat.answer_details import AnswerDetails
from app.settings.values import Settings
from app.store.records import Status
from app.translation import chosen_language, read_translations, tr, translation_file
from tests.support.translatable import calls_without_literals, strings

LANGUAGES = sorted(path.stem.removeprefix("tessera_") for path in TRANSLATIONS.glob("tessera_*.ts"))
NAMES = re.compile(r"\{(\w+)[^}]*\}")

# Texts of these calls come from the tables that tests.support.translatable reads.
FROM_TABLES = {
    "tr(parameter.title)",
    "tr(parameter.help)",
    "tr(parameter.off[1])",
    "tr(group)",
    "tr(one)",
    "tr(one.state.value)",
    "tr(status.state.value)",
    "tr(entry.state.value)",
    "tr(entry.origin)",
    "tr(names[section])",
    "tr(setting.help)",
    "tr(setting.zero)",
    "tr(setting.title)",
    "tr(self.setting.title)",
    "tr(setting.group)",
    "tr(words)",
    "tr(place)",
    "tr(HEADS[column])",
    "tr(PLACE_WORDS[int(self.places[cell.row, cell.column])])",
    "tr(part.purpose.value)",
    "tr(trace.value)",
}


def test_there_is_chinese():
    assert LANGUAGES == ["zh_CN"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_translated_with_its_values(language):
    words = read_translations(translation_file(language))
    assert sorted(set(strings()) - set(words)) == []
    assert sorted(set(words) - set(strings())) == []
    for source, translation in words.items():
        assert sorted(NAMES.findall(source)) == sorted(NAMES.findall(translation)), source


def test_every_computed_text_comes_from_a_table():
    assert {call.split(": ", 1)[1] for call in calls_without_literals()} <= FROM_TABLES


def test_english_stays_as_it_is():
    assert tr("Deleted “{title}”", title="x") == "Deleted “x”"
    assert chosen_language("en") == "en"
    assert chosen_language("zh_CN") == "zh_CN"


def test_no_english_is_left_in_the_chinese_window(data_folder, start, qtbot):
    Settings(data_folder.settings).set("language", "zh_CN")
    app = start()
    app.engine.answer = "<think>想</think>\n\n好的\n\n```py\nx = 1\n```"
    app.session.send("你好")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    app.page.parameters_button.setChecked(True)
    left: dict[str, str] = {}
    for page in ("chat", "preferences", "library"):
        app.window.show_page(page)
        for widget in app.window.findChildren(QWidget):
            if widget.isVisible():
                for text in texts_of(widget):
                    if is_english(text):
                        left[text] = f"{type(widget).__name__} {widget.objectName()}"
    assert left == {}


def test_dialogs_and_what_qt_says_in_them_are_chinese(data_folder, start, qtbot):
    Settings(data_folder.settings).set("language", "zh_CN")
    app = start()
    app.session.send("你好")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    details = AnswerDetails(app.session.path()[-1], app.session.path(), app.context.theme, app.window)
    shown = [text for widget in details.findChildren(QWidget) for text in texts_of(widget)]
    assert "关闭" in shown
    assert [text for text in shown if is_english(text)] == []
    edit = QLineEdit()
    menu = edit.createStandardContextMenu()
    assert [action.text() for action in menu.actions() if is_english(action.text().split("\t")[0])] == []
    assert any("粘贴" in action.text() for action in menu.actions())
    files = QFileDialog(app.window)
    files.setOption(QFileDialog.Option.DontUseNativeDialog)
    left = {text for widget in files.findChildren(QWidget) for text in texts_of(widget) if is_english(text)}
    assert left == set()


def texts_of(widget: QWidget) -> list[str]:
    found = [widget.toolTip(), widget.accessibleName(), widget.accessibleDescription()]
    if isinstance(widget, QLabel | QAbstractButton):
        found.append(widget.text())
    if isinstance(widget, QLineEdit | QTextEdit):
        found.append(widget.placeholderText())
    return [text for text in found if text]


# Proper names, file names, and terms that are written alike in both languages.
ALIKE = re.compile(
    r"Tessera|Scripted[\w ().-]*|Q4_K_M|GGUF|GBNF|JSON|Top-[kp]|Min-p|English|Hugging Face|SmolLM2|HF_ENDPOINT|"
    r"/\S+|https?://\S+|[\w.-]+\.(?:gguf|co|py)|llama\.cpp|PDF|PEM|native|\bpy\b|\b\d[\d,.]* ?[kMGT]?B\b|ms\b|\bs\b"
)


def is_english(text: str) -> bool:
    """Words of latin letters, and no Chinese at all."""
    rest = ALIKE.sub("", text)
    return re.search(r"[A-Za-z]{2,}", rest) is not None and re.search(r"[\u4e00-\u9fff]", text) is None
