"""`tessera smoke`: the whole way once, as a person would go: window, starter model, question, answer.

Runs on a data folder of its own that is gone afterwards. For packages and for whoever doubts an installation.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from app.environment import has_display

QUESTION = "Say hello in one short sentence."
TIMEOUT_SECONDS = 300.0


def run(options: argparse.Namespace) -> int:
    """0: answered. 1: the reason is on standard error. Times count from the start of the process."""
    if not has_display():
        print(
            "There is no display, so the window cannot open. QT_QPA_PLATFORM=offscreen does without.", file=sys.stderr
        )
        return 1
    from app.window import make_application
    from engine.hub.starter import find_starter_model

    application = make_application()
    model = options.model or find_starter_model()  # the bundle has one of its own, and finds it by itself
    with tempfile.TemporaryDirectory(prefix="tessera-smoke-") as folder:
        return _Smoke(application, Path(folder), model).run()


class _Smoke:
    def __init__(self, application: object, folder: Path, model: Path | None) -> None:
        from app.context import AppContext
        from app.crash import CrashHandler
        from app.environment import DataFolder

        data = DataFolder(folder)
        self._crash_handler = CrashHandler(data.logs)
        self._application = application
        self._model = model
        self.context = AppContext(application, data, self._crash_handler)  # type: ignore[arg-type]
        self.context.settings.set("context_length", 512)
        self._problems: list[str] = []
        self.context.problems.raised.connect(
            lambda problem: self._problems.append(" ".join(filter(None, (problem.cause, problem.done, problem.remedy))))
        )

    def run(self) -> int:
        context = self.context
        context.window.first_painted.connect(lambda: self._say("first paint"))
        context.window.show()
        try:
            if not self._wait(lambda: context.models.info is not None or self._load_given()):
                return self._fail("the starter model was not loaded")
            self._say(f"{Path(context.models.info.path).name} loaded, {context.models.info.engine} engine")  # type: ignore[union-attr]
            finished: list[object] = []
            context.session.finished.connect(finished.append)
            context.session.set_parameters({"temperature": 0.0})  # the most likely words: the same ones everywhere
            context.session.send(QUESTION)
            if not self._wait(lambda: bool(finished)):
                return self._fail("no answer came")
            answer = context.session.path()[-1]
            if not answer.content.strip() or self._problems:
                return self._fail(f"the answer is empty or failed: {answer.status.value} {answer.details}")
            self._say(f"answered: {answer.content.strip()[:80]!r}")
            return 0
        finally:
            context.close()
            context.window.close()

    def _load_given(self) -> bool:
        if self._model is not None and self.context.models.loading_path is None:
            self.context.models.load(self._model)
            self._model = None
        return False

    def _wait(self, condition: object) -> bool:
        end = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < end and not self._problems:
            self._application.processEvents()  # type: ignore[attr-defined]
            if condition():  # type: ignore[operator]
                return True
            time.sleep(0.002)
        return False

    def _say(self, words: str) -> None:
        print(f"{seconds_since_start():6.2f} s, {time.process_time():.2f} s of work  {words}", flush=True)

    def _fail(self, words: str) -> int:
        print("smoke test failed:", words, *self._problems, sep="\n  ", file=sys.stderr)
        return 1


def seconds_since_start() -> float:
    """Since the system made this process. On Linux by the clock in which it notes that: psutil adds the time of the
    boot, which is given in whole seconds, and would count up to one too many."""
    if sys.platform == "linux":
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # proc(5): starttime
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    import psutil

    return time.time() - psutil.Process().create_time()
