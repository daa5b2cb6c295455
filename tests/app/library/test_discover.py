"""Discover, as its owner uses it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible

from app.library.hub_dialog import HubDialog
from engine.hub.fit import Fit, FitKind
from engine.placement.hardware import catalogue
from tests.app.library.conftest import Opened
from tests.support.hub_content import Bytes, Noise, Repository
from tests.support.hub_faults import Fault
from tests.support.small_gguf import small_gguf

PLANNED = Fit(FitKind.SPLIT, "GPU + RAM: ~21 tok/s predicted", "Measured here.", 1, 21.0)
MODEL = "maker/Wonder-30B-GGUF"
README = "# Wonder\n\n**Bold** <script>alert(1)</script> ![x](http://127.0.0.1:9/x.png) [link](file:///etc/passwd)\n"


def publish(library: Opened, **options) -> Repository:
    data = small_gguf(tokens=100).build()
    fork = small_gguf().tensor_raw("blk.0.x.weight", (64, 64), 134, bytes(4096)).build()
    files = {
        "Wonder-30B-Q4_K_M.gguf": Bytes(data),
        "Wonder-30B-Q8_0-00001-of-00002.gguf": Noise(2000, 2),
        "Wonder-30B-Q8_0-00002-of-00002.gguf": Noise(1000, 3),
        "Wonder-30B-IQ1_BN.gguf": Bytes(fork),
        "mmproj-F16.gguf": Noise(500, 4),
        "Wonder-30B-Q6_K.gguf.part1of2": Noise(700, 5),
        "Wonder-30B-Q6_K.gguf.part2of2": Noise(700, 6),
    }
    return library.hub.add(Repository(MODEL, files, readme=README, **options))


def open_card(library: Opened, qtbot):
    page = library.tab("discover")
    page.card.open(MODEL)
    qtbot.waitUntil(lambda: page.card.card is not None or page.card.error is not None)
    qtbot.waitUntil(lambda: not page.card.is_reading)
    return page


def row(page, label: str):
    return next(one for one in page.view.rows if one.model.quantization == label)


def test_curated_list_stands_without_any_request(library, qtbot):
    page = library.tab("discover")
    qtbot.waitUntil(lambda: page.model.rowCount() == 12)
    assert "good start" in page.heading.text()
    assert not library.hub.requests


def test_typing_twelve_letters_asks_once(library, qtbot):
    publish(library)
    page = library.tab("discover")
    qtbot.keyClicks(page.field, "wonder model", delay=5)
    qtbot.waitUntil(lambda: page.search.is_finished)
    assert len(library.hub.requests) <= 2
    qtbot.wait(400)
    page.field.setText("wonder")
    qtbot.waitUntil(lambda: page.model.rowCount() == 1)
    asked = len(library.hub.requests)
    page.field.setText("wonder model")
    page.field.setText("wonder")  # answered before: from memory
    qtbot.wait(400)
    assert len(library.hub.requests) == asked
    assert page.model.rowCount() == 1


def test_a_later_search_wins_over_a_slow_earlier_one(library, qtbot):
    publish(library)
    page = library.tab("discover")
    library.hub.hub_faults.append(Fault(then="stall"))
    page.field.setText("slow")
    qtbot.waitUntil(lambda: len(library.hub.requests) == 1)
    page.field.setText("wonder")
    qtbot.waitUntil(lambda: page.model.rowCount() == 1)
    assert page.search.error is None


def test_a_thousand_repositories_come_page_by_page(library, qtbot):
    for number in range(1000):
        library.hub.add(Repository(f"many/thing-{number:04d}-GGUF", downloads=number))
    page = library.tab("discover")
    page.field.setText("thing")
    qtbot.waitUntil(lambda: page.model.rowCount() == 50)
    assert len(library.hub.requests) == 1
    while not page.search.is_finished:
        before = page.model.rowCount()
        page.list.verticalScrollBar().setValue(page.list.verticalScrollBar().maximum())
        page.search.more()
        qtbot.waitUntil(lambda before=before: page.model.rowCount() > before or page.search.is_finished)
    assert page.model.rowCount() == 1000
    titles = [page.model.index(index).data(Qt.ItemDataRole.UserRole).title for index in range(1000)]
    assert len(set(titles)) == 1000
    assert titles[0] == "thing-0999-GGUF"


def test_order_is_asked_of_the_hub(library, qtbot):
    library.hub.add(Repository("a/one-GGUF", downloads=1, likes=100))
    library.hub.add(Repository("a/two-GGUF", downloads=2, likes=1))
    page = library.tab("discover")
    page.field.setText("gguf")
    qtbot.waitUntil(lambda: page.model.rowCount() == 2)
    page.sort.setCurrentIndex(1)
    qtbot.waitUntil(lambda: page.search.is_finished and page.model.rowCount() == 2)
    assert page.model.index(0).data(Qt.ItemDataRole.UserRole).title == "one-GGUF"


def test_opening_a_card_makes_three_requests_and_shows_models_not_files(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    assert len(library.hub.requests) == 3
    labels = {one.model.quantization: one for one in page.view.rows}
    assert set(labels) == {"Q4_K_M", "Q8_0", "IQ1_BN", "Q6_K"}
    assert "in 2 files" in labels["Q8_0"].name.text()
    assert "In pieces" in labels["Q6_K"].pill.text()
    assert not labels["Q6_K"].button.isEnabled()
    assert "mmproj" in page.view.companions.text()
    assert labels["Q4_K_M"].pill.text() == "Runs on the GPU"
    assert page.view.title.text() == "Wonder-30B-GGUF"


def test_pressing_a_row_reads_its_own_header_once(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    fork = row(page, "IQ1_BN")
    qtbot.mouseClick(fork, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: fork.pill.text() == "Unsupported: tensor type IQ1_BN")
    asked = len(library.hub.requests)
    qtbot.mouseClick(fork, Qt.MouseButton.LeftButton)
    qtbot.wait(50)
    assert len(library.hub.requests) == asked


def test_a_row_is_chosen_by_keyboard_and_says_why(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    fork = row(page, "IQ1_BN")
    before = next(one for one in page.view.rows if one is not fork)
    fork.title.setFocus(Qt.FocusReason.TabFocusReason)
    assert fork.title.focusPolicy() & Qt.FocusPolicy.TabFocus
    spoken = QAccessible.queryAccessibleInterface(fork.title)
    assert spoken.role() == QAccessible.Role.Button
    assert spoken.text(QAccessible.Text.Name).startswith("IQ1_BN, ")
    assert "Estimated from the size" in spoken.text(QAccessible.Text.Description)
    qtbot.keyClick(fork.title, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: fork.pill.text() == "Unsupported: tensor type IQ1_BN")
    assert "Unsupported: tensor type IQ1_BN" in spoken.text(QAccessible.Text.Name)
    assert "neither our engine nor llama.cpp" in fork.reason.text()
    assert fork.reason.isVisibleTo(page.view)
    qtbot.keyClick(before.title, Qt.Key.Key_Space)
    assert before.reason.isVisibleTo(page.view)
    assert not fork.reason.isVisibleTo(page.view)


def test_speed_is_predicted_only_after_this_machine_was_measured(library, qtbot, monkeypatch):
    publish(library)
    page = open_card(library, qtbot)
    assert "tok/s" not in row(page, "Q4_K_M").pill.text()
    assert page.view.measure.isVisibleTo(page.view)
    measured = catalogue.machine("Ryzen 7 5800X", None, 32)
    services = library.controller.services
    monkeypatch.setattr(services, "measure", lambda: setattr(services, "profile", measured))
    monkeypatch.setattr(services, "read_profile", lambda: None)  # nothing was kept in the folder
    kinds = []
    monkeypatch.setattr(
        "app.library.hub_services.planned_fit", lambda shape, profile, kv_type: kinds.append(kv_type) or PLANNED
    )
    qtbot.mouseClick(page.view.measure, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "~21 tok/s predicted" in row(page, "Q4_K_M").pill.text())
    assert not page.view.measure.isVisibleTo(page.view)
    assert set(kinds) == {"f16"}
    library.app.context.settings.set("kv_type", "q8_0")
    assert kinds[-1] == "q8_0", "caches take less, so pills are looked at again"


def test_description_is_safe_and_only_on_demand(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    qtbot.mouseClick(page.view.more, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.card.description is not None)
    text = page.view.description.toPlainText()
    assert "Wonder" in text and "Bold" in text
    assert "<script" not in page.view.description.toHtml().replace("&lt;script", "")
    assert len(library.hub.requests) == 4
    qtbot.wait(50)
    assert len(library.hub.requests) == 4, "showing it loads nothing"


def test_gated_repository_says_what_to_do(library, qtbot):
    publish(library, gated="manual")
    page = open_card(library, qtbot)
    qtbot.waitUntil(lambda: page.card.header_error is not None)
    assert "gated" in page.view.notice.cause.text()
    assert f"{library.hub.url}/{MODEL}" in page.view.notice.rest.text()
    assert len(page.view.rows) == 4


def test_unreachable_hub_names_the_setting_and_can_be_tried_again(open_library, qtbot):
    library = open_library(hub_endpoint="http://127.0.0.1:9")
    page = library.tab("discover")
    page.field.setText("wonder")
    qtbot.waitUntil(lambda: page.search.error is not None)
    assert "Settings, Network" in page.notice.rest.text()
    publish(library)
    library.app.context.settings.set("hub_endpoint", library.hub.url)
    qtbot.mouseClick(page.notice.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.model.rowCount() == 1)


def test_download_from_the_card_ends_in_the_library(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    button = row(page, "Q4_K_M").button
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: any(one.title == "Wonder-30B-Q4_K_M" for one in library.controller.entries), timeout=10_000)
    entry = next(one for one in library.controller.entries if one.title == "Wonder-30B-Q4_K_M")
    assert (entry.state.name, entry.verified, entry.repository) == ("READY", True, MODEL)
    qtbot.waitUntil(lambda: button.text() == "In your library")
    assert not button.isEnabled()
    qtbot.waitUntil(lambda: any("Wonder" in model.name for model in library.app.context.models.models))


def test_a_model_deleted_by_hand_is_offered_again(library, qtbot):
    publish(library)
    page = open_card(library, qtbot)
    button = row(page, "Q4_K_M").button
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: button.text() == "In your library", timeout=10_000)
    next(library.controller.services.models.rglob("Wonder-30B-Q4_K_M.gguf")).unlink()
    library.app.window.show_page("chat")
    library.app.window.show_page("library")  # whoever comes back to the page sees what is there
    qtbot.waitUntil(lambda: button.isEnabled() and button.text() == "Download", timeout=10_000)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: button.text() == "In your library", timeout=10_000)


def test_token_dialog_saves_and_tests(library, qtbot, tmp_path):
    publish(library, private=True)
    library.page.open_hub_dialog()
    dialog = library.page.findChild(HubDialog)
    dialog.token.setText(library.hub.token)
    qtbot.mouseClick(dialog.save, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "no keyring" in dialog.notice.cause.text())
    assert not dialog.token.text()
    qtbot.mouseClick(dialog.test, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "answers" in dialog.notice.cause.text())
    dialog.close()
    page = open_card(library, qtbot)
    assert page.card.error is None and page.view.rows
