"""Pages with nothing to show yet: words in the middle, and a button that leads on."""

from PySide6.QtCore import Qt


def test_the_memory_page_without_a_model_leads_to_the_library(start, data_folder, qtbot):
    for path in data_folder.models.iterdir():
        path.unlink()
    app = start(wait_for_model=False)
    app.window.show_page("memory")
    page = app.window.page("memory")
    assert page.empty.isVisible() and not page.notice.isVisible() and not page.budget.isVisible()
    qtbot.mouseClick(page.empty.button, Qt.MouseButton.LeftButton)
    assert app.window.page("library").isVisible()


def test_words_stand_below_each_other_in_the_middle(app):
    empty = app.page.empty
    middle = empty.rect().center().x()
    assert empty.width() > empty.text.maximumWidth()
    for part in (empty.mark, empty.title, empty.text):
        assert abs(part.geometry().center().x() - middle) <= 1


def test_the_chat_without_a_model_leads_to_the_library(start, data_folder, qtbot):
    for path in data_folder.models.iterdir():
        path.unlink()
    app = start(wait_for_model=False)
    qtbot.waitUntil(lambda: app.page.empty.title.text() == "No model yet")
    assert app.page.empty.button.isVisible()
    qtbot.mouseClick(app.page.empty.button, Qt.MouseButton.LeftButton)
    assert app.window.page("library").isVisible()


def test_a_low_window_keeps_the_words_and_drops_the_button(start, data_folder, qtbot):
    for path in data_folder.models.iterdir():
        path.unlink()
    app = start(wait_for_model=False)
    empty = app.page.empty
    qtbot.waitUntil(lambda: empty.title.text() == "No model yet")
    empty.resize(600, 200)
    assert empty.title.isVisible() and not empty.button.isVisible()
