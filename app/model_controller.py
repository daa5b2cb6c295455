"""Which model runs: choosing, loading, and what the window says about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.background import Background
from app.engine_client import EngineClient
from app.environment import DataFolder
from app.model_crashes import ModelCrashes
from app.model_files import ModelFile, available_models, model_to_begin_with
from app.problems import Action, Problem, Problems
from app.settings.values import Settings
from app.translation import engine_text, tr
from engine.hub.names import proper_name
from engine.messages import (
    CancelLoad,
    EngineStopped,
    Event,
    LoadModel,
    LoadOptions,
    ModelInfo,
    ModelLoadCancelled,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    ModelUnloaded,
    UnloadModel,
)

PROBLEM = "model"
MiB = 1 << 20


class ModelController(QObject):
    """State of the one loaded model. `changed` follows every event that alters it."""

    changed = Signal()
    models_found = Signal(list)  # of ModelFile

    def __init__(
        self,
        client: EngineClient,
        settings: Settings,
        folder: DataFolder,
        background: Background,
        problems: Problems,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.info: ModelInfo | None = None
        self.loading_path: str | None = None
        self.loading_fraction = 0.0
        self.loading_stage = ""
        self._last_path: str | None = None  # what ran when the engine ended
        self._orders = 0  # loads that were sent and have not ended
        self.asked_context = 0  # tokens that the last load asked for; 0: automatic
        self.models: list[ModelFile] = []
        self._client = client
        self._settings = settings
        self._folder = folder
        self._background = background
        self._problems = problems
        self.crashes = ModelCrashes(folder)

    @property
    def models_folder(self) -> Path:
        chosen = self._settings["models_folder"]
        return Path(chosen) if chosen else self._folder.models

    @property
    def is_usable(self) -> bool:
        """A prompt sent now will be answered: a model is loaded, or on its way."""
        return self.info is not None or self.loading_path is not None

    def start(self, after_crash: bool = False) -> None:
        """Find the models, and load the one to begin with; after a crash, wait to be asked."""
        self.crashes.note_start(after_crash)
        self.refresh(lambda: self._load_at_start(after_crash))

    def close(self) -> None:
        """In good order: what ran is cleared of suspicion."""
        if self.info is not None:
            self.crashes.forgive(self.info.path)
        self.crashes.left()

    def refresh(self, then: object = None) -> None:
        folder = self.models_folder

        def done(models: list[ModelFile]) -> None:
            self.models = models
            self.models_found.emit(models)
            if callable(then):
                then()

        self._background.run_in_background(lambda: available_models(folder), done)

    def load(self, path: Path | str, context_length: int = 0) -> None:
        """`context_length`: what a conversation asks for; 0: as the settings say."""
        settings = self._settings
        self.asked_context = context_length or settings["context_length"]
        options = LoadOptions(
            context_length=self.asked_context or None,
            threads=settings["threads"] or None,
            kv_type=settings["kv_type"],
            engine=settings["engine"],
            device=settings["device"],
            gpu_budget=settings["gpu_budget"] * MiB or None,
            ram_budget=settings["ram_budget"] * MiB or None,
            heat_folder=str(self._folder.heat),
            pins_folder=str(self._folder.pins),
        )
        self.loading_path, self.loading_fraction, self.loading_stage = str(path), 0.0, ""
        self._problems.clear(PROBLEM)
        self.crashes.loading(str(path))
        self._orders += 1
        self._client.send(LoadModel(str(path), options))
        self.changed.emit()

    def cancel_load(self) -> None:
        """The model that is being loaded is not wanted after all; one that runs goes on."""
        self._client.send(CancelLoad())

    def load_with_context(self, tokens: int) -> None:
        """The same model again, with another context length that is kept."""
        self._settings.set("context_length", tokens)
        self.reload()

    def reload(self) -> None:
        if self.info is not None:
            self.load(self.info.path)

    def start_again(self) -> None:
        """The engine has ended unasked: start another one, with the model that ran."""
        self._client.restart()
        if self._last_path is not None:
            self.load(self._last_path)

    def unload(self) -> None:
        self.info = None  # from now on nobody answers, though freeing the memory takes a moment
        self._client.send(UnloadModel())
        self.changed.emit()

    def handle(self, event: Event) -> None:
        match event:
            case ModelLoading(path=path, fraction=fraction, stage=stage):
                self.loading_path, self.loading_fraction, self.loading_stage = path, fraction, stage
            case ModelLoaded(info=info):
                self._orders = max(0, self._orders - 1)
                self.loading_path = None
                self.info = info = _with_proper_name(info)
                self.crashes.loaded(info.path)
                self._settings.set("last_model", info.path)
                self._show_warnings(info)
            case ModelLoadFailed():
                self._load_failed(event)
            case ModelLoadCancelled(still_loaded=still_loaded):
                self._load_ended(still_loaded)
            case ModelUnloaded():
                self.info = None
                self.crashes.left()
            case EngineStopped():
                self._orders = 0
                self._last_path = self.info.path if self.info is not None else self.loading_path
                self.info = self.loading_path = None
            case _:
                return
        self.changed.emit()

    def _load_ended(self, still_loaded: str | None) -> None:
        """Without the model that was wanted. The next one may be on its way already."""
        self._orders = max(0, self._orders - 1)
        if still_loaded is None:
            self.info = None
        if self._orders:
            return
        self.loading_path = None
        self.crashes.left()
        if self.info is not None:
            self.crashes.loaded(self.info.path)

    def _load_failed(self, event: ModelLoadFailed) -> None:
        self._load_ended(event.still_loaded)
        path = event.path
        again = Action(tr("Try again"), lambda: self.load(path), primary=True)
        self._problems.show(Problem.from_info(PROBLEM, event.error, (again,)))

    def _show_warnings(self, info: ModelInfo) -> None:
        if info.warnings:
            self._problems.show(Problem(PROBLEM, engine_text("\n".join(info.warnings)), serious=False))

    # --- what happens at start ---

    def _load_at_start(self, after_crash: bool) -> None:
        if self.is_usable:  # chosen by hand meanwhile
            return
        path = model_to_begin_with(self.models, self._settings["last_model"])
        if path is None:
            return
        if why := self._why_not(path, after_crash):
            again = Action(tr("Load it anyway"), lambda: self.load(path), primary=True)
            self._problems.show(
                Problem(
                    PROBLEM,
                    why,
                    tr("The model was not loaded again on its own."),
                    tr("Load it anyway, or choose another model."),
                    (again,),
                )
            )
            return
        self.load(path)

    def _why_not(self, path: Path, after_crash: bool) -> str:
        """Why this model is not loaded unasked, or an empty string."""
        crashes, name = self.crashes, path.name
        if crashes.is_marked(path):
            return tr("Tessera has crashed {count} times with {name}.", count=crashes.count(path), name=name)
        if crashes.was_loading and crashes.previous == str(path):
            return tr("Tessera ended while it was loading {name}.", name=name)
        return tr("Tessera crashed while {name} was loaded.", name=name) if after_crash else ""


def _with_proper_name(info: ModelInfo) -> ModelInfo:
    name = proper_name(Path(info.path).name, info.file_bytes)
    return replace(info, name=name) if name else info
