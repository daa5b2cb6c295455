"""The pages behind the settings, and the first page of all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from app.first_run.machine_words import FirstLook, gpu_fact, memory_fact, processor_fact
from app.help.gpu_page import GpuPage
from app.model_files import ModelFile
from app.problems import Action, Problem
from engine.errors import FileError
from engine.hub.catalogue import CatalogueModel
from engine.hub.names import STARTER_FILE
from engine.hub.recommend import GB, Memories, Role, predicted_decode, recommend
from engine.messages import LoadModel
from engine.telemetry.doctor import Check, Health


def words_of(widget) -> str:
    return "\n".join(label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget))


def test_the_doctor_shows_every_check_with_its_remedy_worst_first(app, qtbot):
    app.window.show_page("preferences")
    app.window.page("preferences").links["doctor"].button.click()
    page = app.window.page("doctor")
    assert app.window.stack.currentWidget() is page
    qtbot.waitUntil(lambda: bool(page.rows), timeout=30_000)
    page.show_checks(
        [
            Check("Processor", Health.GOOD, "fast"),
            Check("Disk", Health.BROKEN, "0 B free for /home/ada/x", "Free some space."),
            Check("GPU", Health.LIMITED, "none", "Buy one."),
        ]
    )
    shown = [words_of(row).splitlines() for row in page.rows]
    assert [lines[1] for lines in shown] == ["Disk", "GPU", "Processor"]
    assert "Free some space." in shown[0]
    page.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert "broken" in copied
    assert "/home" not in copied
    page.back.click()
    assert app.window.stack.currentWidget() is app.window.page("preferences")


def test_the_log_is_read_and_copied_without_paths(app, qtbot, data_folder):
    data_folder.logs.mkdir(exist_ok=True)
    (data_folder.logs / "tessera.log").write_text("could not open /home/ada/x.gguf: gone\n")
    app.window.show_page("logs")
    page = app.window.page("logs")
    qtbot.waitUntil(lambda: "/home/ada/x.gguf" in page.text.toPlainText())
    page.copy.click()
    assert QGuiApplication.clipboard().text() == "could not open <path>: gone\n"
    page.files.setCurrentIndex(1)
    qtbot.waitUntil(lambda: not page.text.toPlainText())
    assert not page.copy.isEnabled()


class Support:
    """GPU support that needs no network."""

    def __init__(self, error: Exception | None = None) -> None:
        self.component = SimpleNamespace(source=SimpleNamespace(size=1000))
        self.folder, self.kept_bytes, self.is_installed, self.error = "/data/nvrtc", 0, False, error

    def download(self, _settings):
        def run() -> None:
            if self.error is not None:
                raise self.error

        return SimpleNamespace(run=run, done=0, waiting="", abort=lambda: None)

    def install(self) -> None:
        self.is_installed = True

    def remove(self) -> None:
        self.is_installed = False


@pytest.fixture
def gpu_page(app, qtbot):
    def make(support: Support) -> GpuPage:
        page = GpuPage(app.context.theme, app.context.background, app.context.settings, support)
        qtbot.addWidget(page)
        return page

    return make


def test_gpu_support_is_installed_and_removed_by_one_button(gpu_page, qtbot):
    support = Support()
    page = gpu_page(support)
    assert page.button.text() == "Install"
    page.button.click()
    qtbot.waitUntil(lambda: page.button.text() == "Remove")
    assert "Start Tessera again" in page.notice.cause.text()
    page.button.click()
    qtbot.waitUntil(lambda: page.button.text() == "Install")


def test_an_installation_that_fails_says_why_and_can_go_on(gpu_page, qtbot):
    support = Support(FileError("The disk is full.", remedy="Free some space."))
    support.kept_bytes = 400
    page = gpu_page(support)
    assert page.button.text() == "Go on"
    page.button.click()
    qtbot.waitUntil(lambda: page.notice.cause.text() == "The disk is full.")
    support.error = None
    page.notice.button.click()
    qtbot.waitUntil(lambda: support.is_installed)


# --- the first page ---


def model(title: str, billions: float, gigabytes: float, active: float | None = None) -> CatalogueModel:
    return CatalogueModel(title, f"maker/{title}", "f.gguf", "Q4_K_M", billions, active, gigabytes, "mit", "Why not.")


CATALOGUE = (
    model("Small", 1.7, 1.06),
    model("Medium", 8.2, 5.03),
    model("Large", 14, 9.0),
    model("Mixture", 20, 12.1, 3.6),
    model("Huge", 70, 42.5),
)


def test_three_models_that_fit_one_of_each_speed():
    found = recommend(CATALOGUE, Memories(16 * GB, 45e9))
    assert [(one.model.title, one.role) for one in found] == [
        ("Small", Role.QUICK),
        ("Medium", Role.BALANCED),
        ("Large", Role.ABLE),
    ] or [one.model.title for one in found][-1] == "Mixture"
    assert all(one.speed > 0 for one in found)
    assert [one.model.title for one in recommend(CATALOGUE, Memories(4 * GB, 20e9))] == ["Small"]
    assert recommend(CATALOGUE, Memories(2 * GB, 20e9)) == []


def test_where_nothing_is_quick_the_larger_one_is_still_the_more_able():
    found = recommend(CATALOGUE, Memories(32 * GB, 0.3 * GB))
    assert [one.model.title for one in found] == ["Small", "Medium", "Large"]
    assert [one.role for one in found] == [Role.QUICK, Role.BALANCED, Role.ABLE]


def test_a_mixture_reads_what_is_active_and_a_card_its_own_share():
    memories = Memories(64 * GB, 50e9)
    assert predicted_decode(CATALOGUE[1], memories) == pytest.approx(50 / 5.03)
    assert predicted_decode(CATALOGUE[3], memories) == pytest.approx(50 / (12.1 * 3.6 / 20))
    card = Memories(64 * GB, 50e9, 24 * GB, 500e9)
    assert predicted_decode(CATALOGUE[1], card) == pytest.approx(500 / 5.03)
    assert predicted_decode(CATALOGUE[4], memories) < predicted_decode(CATALOGUE[4], card) < 500 / 42.5


def test_the_machine_in_plain_words():
    assert "about 12 GB" in memory_fact(16 * GB).words
    assert not memory_fact(4 * GB).good
    assert "slow" in processor_fact("Old", 2, "scalar").words
    assert processor_fact("New", 8, "avx2").good
    assert "processor" in gpu_fact(None, usable=False).words
    assert not gpu_fact(("RTX", 12 * GB), usable=False).good
    assert gpu_fact(("RTX", 12 * GB), usable=True).good


def test_the_first_page_leads_to_the_chat_the_library_and_a_file(app, qtbot, tmp_path):
    app.window.show_page("welcome")
    page = app.window.page("welcome")
    assert "Looking at this computer…" in words_of(page)  # no empty cards meanwhile
    qtbot.waitUntil(lambda: page.facts.count() == 3, timeout=30_000)
    found = recommend(CATALOGUE, Memories(16 * GB, 45e9))
    page.show_look(FirstLook((memory_fact(16 * GB),), tuple(found), measured=False))
    assert page.models.count() == 3
    assert "not measured" in page.source.text()
    page.file_chosen.emit(str(tmp_path / "mine.gguf"))
    assert any(isinstance(one, LoadModel) and "mine.gguf" in one.path for one in app.engine.commands)
    app.window.show_page("welcome")
    qtbot.keyClick(page.begin, Qt.Key.Key_Return)
    assert app.window.stack.currentWidget() is app.page


def test_the_first_page_promises_no_starter_model_where_there_is_none(start, data_folder, qtbot):
    for path in data_folder.models.iterdir():
        path.unlink()
    app = start(wait_for_model=False)
    app.window.show_page("welcome")
    page = app.window.page("welcome")
    app.context.models.refresh()
    qtbot.waitUntil(lambda: "No model is here yet" in page.model_words.text())
    page.begin.click()
    assert app.window.stack.currentWidget() is app.window.page("library")
    page.show_models([ModelFile(path, 1) for path in (Path("a.gguf"), Path("b.gguf"))])
    assert page.model_words.text().endswith("already: 2.") and page.begin.text() == "Start chatting"
    page.show_models([ModelFile(Path(STARTER_FILE), 1)])
    assert "starter model is here already" in page.model_words.text()


def test_a_second_start_brings_its_model(app, tmp_path):
    app.window.show_page("preferences")
    app.context.second_start(str(tmp_path / "clicked.gguf"), "")
    assert app.window.stack.currentWidget() is app.page
    assert any(isinstance(one, LoadModel) and "clicked.gguf" in one.path for one in app.engine.commands)


def test_the_pages_fit_into_a_narrow_window(app, qtbot):
    for name in ("welcome", "doctor", "logs", "gpu"):
        app.window.show_page(name)
        page = app.window.page(name)
        if name == "welcome":
            qtbot.waitUntil(lambda page=page: page.facts.count() == 3, timeout=30_000)
        assert page.widget().minimumSizeHint().width() <= 428, name


def test_a_problem_is_read_whole_in_a_low_window(app, qtbot):
    app.window.resize(440, 560)
    words = "Your conversations and what you were writing are here. Nothing was sent to anybody. " * 2
    action = Action("Do it", lambda: None)
    app.context.problems.show(Problem("one", "It crashed.", words, actions=(action,)))
    app.context.problems.show(Problem("two", "A model crashed too.", "It was not loaded.", actions=(action,)))
    labels = app.page.problem_stack.cards[0].findChildren(QLabel, "problemRest")
    qtbot.waitUntil(lambda: 200 < labels[0].width() < 400)  # laid out
    qtbot.waitUntil(lambda: labels[0].height() >= labels[0].heightForWidth(labels[0].width()))
