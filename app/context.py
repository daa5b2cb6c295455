"""Composition root: the only place where collaborators are made and wired together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QFileDialog

from app.background import Background, MainThread
from app.chat.answers import Answers
from app.chat.conversations import Conversations
from app.chat.parameters.presets import Presets
from app.chat.search import ConversationSearch
from app.chat.session import ChatSession
from app.chat.summaries import Summaries
from app.chat.titles import Titles
from app.crash import CrashHandler
from app.draft import Draft
from app.engine_client import Arrival, EngineClient, EngineFactory, make_engine
from app.environment import DataFolder, use_activation_token
from app.garbage import GarbageCollection
from app.library.library_controller import LibraryController
from app.main_window import MainWindow
from app.model_controller import ModelController
from app.placement.answer_prediction import AnswerPrediction
from app.placement.own_machine import OwnMachine
from app.placement.placement_controller import PlacementController
from app.placement.spill_watch import SpillWatch
from app.problems import Action, Problem, Problems
from app.settings.values import Settings
from app.store.store_thread import StoreThread
from app.telemetry.history import PER_SECOND
from app.telemetry.telemetry_feed import TelemetryFeed
from app.theme.theme import Theme
from app.translation import engine_text, install_language, tr
from app.update_check import UpdateCheck
from engine.messages import EngineStopped, Notice, TokenEvent

if TYPE_CHECKING:
    from engine.hub.updates import Release

# Seconds after which a thread that runs Python lets another one that waits. Python's own 5 ms are most of a token of a
# small model: so long the engine's thread would wait between two native calls while the window's paints or plans.
SWITCH_INTERVAL = 0.0005


class AppContext(QObject):
    """Everything the window is made of. `start` after showing it, `close` at the end."""

    def __init__(
        self,
        application: QApplication,
        folder: DataFolder,
        crash_handler: CrashHandler,
        engine_factory: EngineFactory = make_engine,
    ) -> None:
        super().__init__()
        folder.create()
        self.folder = folder
        self.crash_handler = crash_handler
        self.main_thread = MainThread(self)
        self.background = Background(self.main_thread)
        self.problems = Problems(self)
        self.settings = Settings(folder.settings)
        self._application = application
        self._translator = install_language(application, self.settings["language"])
        self.theme = Theme(application, self.settings)
        self.theme.load_fonts()
        self.theme.apply()
        self.client = EngineClient(engine_factory, self)
        self.store = StoreThread(folder.database, self.main_thread.post, self._store_failed)
        self.models = ModelController(self.client, self.settings, folder, self.background, self.problems, self)
        self.conversations = Conversations(self.store, self)
        self.answers = Answers(self.client, self.models, self)
        self.session = ChatSession(self.answers, self.store, self.conversations, self)
        self.library = LibraryController(
            self.settings, folder, self.models, self.background, self.problems, parent=self
        )
        self.own_machine = OwnMachine(
            folder.hardware,
            self.background,
            self.main_thread,
            lambda: self.session.is_any_busy,
            lambda: self.models.info.path if self.models.info is not None else "",
            self,
        )
        self.library.machine_measured.connect(self.own_machine.measured)
        self.own_machine.measured.connect(self.library.read_profile)
        self.own_machine.failed.connect(lambda error: self.problems.show(Problem.from_exception("measure", error)))
        self.placement = PlacementController(
            self.client, self.models, self.settings, folder, self.background, self.own_machine, self
        )
        self.prediction = AnswerPrediction(self.session, self.models, self.placement)
        self.telemetry = TelemetryFeed(self.main_thread, self)
        self.spill_watch = SpillWatch(self.telemetry, self.placement, self.problems)
        self.presets = Presets(folder.presets)
        self.titles = Titles(self.client, self.session, self.conversations, self.models, self.settings)
        self.window = MainWindow(
            self.theme,
            self.settings,
            self.session,
            self.conversations,
            self.models,
            self.library,
            self.placement,
            self.telemetry,
            self.problems,
            ConversationSearch(self.store, self.conversations, self),
            self.background,
            self.presets,
            folder,
        )
        self.draft = Draft(self.window.chat_page.composer, self.store, folder.draft, self)
        self.summaries = Summaries(self.client, self.session, self.models, self.problems)
        self.window.chat_page.remedies.summarise_requested.connect(self.summaries.summarise)
        self.telemetry.updated.connect(self._look_at_machine)
        self.updates = UpdateCheck(self.settings, self.background, self)
        self.updates.found.connect(self._tell_update)
        self.garbage = GarbageCollection(self)
        self.client.drained.connect(self._drained)
        self.window.first_painted.connect(lambda: QTimer.singleShot(0, self.start))
        self._looks = 0
        self._started = False
        self._closed = False
        crash_handler.on_exception = self._unexpected
        self.settings.on_unsaved = self._settings_unsaved

    def start(self) -> None:
        """Everything that may wait until the window is on screen."""
        if self._started:
            return
        self._started = True
        sys.setswitchinterval(SWITCH_INTERVAL)
        self.store.start()
        self.conversations.load()
        if days := self.settings["trash_days"]:
            self.conversations.empty_trash(days)
        self.draft.start()
        self.client.start()
        self.models.start(after_crash=self.crash_handler.crashed_before)
        self.telemetry.start()
        self.background.run_in_background(_warm_up)
        self.background.run_in_background(_instruction_set, self._tell_processor)
        if unread := [*self.settings.problems, *filter(None, [self.presets.problem])]:
            self.problems.show(Problem("settings", engine_text("\n".join(unread)), serious=False))
        if self.crash_handler.crashed_before:
            self._tell_crash()
        self.updates.start_if_due()  # without an answer it asks again in a week, and says nothing
        self.garbage.freeze()

    def second_start(self, model: str, token: str) -> None:
        """Tessera was started again: show this window, with the model that was double-clicked."""
        use_activation_token(token)
        self.window.bring_to_front()
        if model:
            self.window.show_page("chat")
            self.models.load(model)

    def close(self) -> None:
        """End the engine, save everything. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.crash_handler.on_exception = None
        self.models.close()
        self.library.close()
        self.telemetry.close()
        self.client.close()
        if self._started:
            self.draft.save()
            self.store.close()
        self.main_thread.close()
        self.garbage.stop()
        if self._translator is not None:
            self._application.removeTranslator(self._translator)

    def _drained(self, arrivals: list[Arrival]) -> None:
        told = [arrival for arrival in arrivals if not isinstance(arrival.event, TokenEvent)]
        for _, event in told:
            self.models.handle(event)
            if isinstance(event, Notice):
                text, remedy = engine_text(event.text), engine_text(event.remedy)
                self.problems.show(Problem("notice", text, remedy=remedy, serious=False))
            elif isinstance(event, EngineStopped) and event.error is not None:
                again = Action(tr("Start the engine again"), self.models.start_again, primary=True)
                self.problems.show(Problem.from_info("engine", event.error, (again,)))
        self.telemetry.handle_all(arrivals)
        self.placement.handle_all(told)
        self.titles.handle_all(arrivals)
        self.summaries.handle_all(arrivals)
        self.answers.handle_all(arrivals)

    def _look_at_machine(self) -> None:
        """Four times a second. Beside an answer the status line shows hit rate and link on every page: asked for once a
        second, as the memory page asks more often, and nobody else looks."""
        self._looks += 1
        if self.session.is_any_busy and self._looks % PER_SECOND == 0:
            self.placement.live.ask()
        if self.telemetry.snapshot is not None:
            self.own_machine.watch(self.telemetry.snapshot)

    def _tell_processor(self, tier: str) -> None:
        if tier == "scalar":
            self.problems.show(
                Problem(
                    "processor",
                    tr("This processor lacks AVX2, so answers will be slow."),
                    tr("Tessera uses its plainest kernels here."),
                    tr("Small models work best; more needs a processor with AVX2, as most have since 2013."),
                    serious=False,
                )
            )

    def _tell_update(self, release: Release) -> None:
        if release.is_newer:
            page = Action(tr("Open its page"), lambda: QDesktopServices.openUrl(QUrl(release.page)), primary=True)
            words = tr("Tessera {version} is out.", version=release.version)
            self.problems.show(Problem("update", words, actions=(page,), serious=False))

    def _tell_crash(self) -> None:
        save = Action(tr("Save a report…"), self._ask_report, keeps_open=True)
        self.problems.show(
            Problem(
                "crashed-before",
                tr("Tessera crashed the last time."),
                tr("Your conversations and what you were writing are here. Nothing was sent to anybody."),
                tr("A report holds what is known of the crash and of this computer, and no words of yours."),
                (save,),
            )
        )

    def _ask_report(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self.window, tr("Save a report"), "tessera-crash.txt", "*.txt")
        if name:
            self.save_report(Path(name))

    def save_report(self, path: Path) -> None:
        """Write the crash report to `path`, in the background; what fails is shown."""
        handler, models_folder = self.crash_handler, self.models.models_folder

        def write() -> None:
            from app.crash_report import make_report
            from engine.telemetry.doctor import run_checks, version

            checks = [(check.name, check.found) for check in run_checks(models_folder, has_display=True)]
            text = make_report(handler.log_file, handler.last_native_log, checks, version())
            path.write_text(text, encoding="utf-8")

        self.background.run_in_background(
            write,
            lambda _: self.window.toast.show_text(tr("The report was saved.")),
            lambda error: self.problems.show(Problem.from_exception("report", error)),
        )

    def _settings_unsaved(self, error: Exception) -> None:
        self.problems.show(
            Problem(
                "settings",
                tr("The settings could not be saved: {error}.", error=getattr(error, "strerror", None) or error),
                tr("What was changed holds until Tessera is closed."),
                tr("Check the free space and the permissions of {path}.", path=self.settings.path.parent),
            )
        )

    def _store_failed(self, error: Exception) -> None:
        self.problems.show(Problem.from_exception("store", error))

    def _unexpected(self, error: BaseException) -> None:
        """From the crash handler, on any thread."""
        log_file: Path = self.crash_handler.log_file
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        problem = Problem(
            "unexpected",
            tr("Something unexpected went wrong: {error}", error=words),
            tr("It was written to {path}. Your conversations are saved.", path=log_file),
            tr("You can go on working. Please report it together with the log."),
        )
        self.main_thread.post(lambda: self.problems.show(problem))


def _instruction_set() -> str:
    from engine.telemetry import doctor

    return doctor.cpu_tier()


def _warm_up() -> None:
    """Import what the first answer needs, off the main thread."""
    from app.chat.markdown import highlight, parser

    parser.warm_up()
    highlight.warm_up()
