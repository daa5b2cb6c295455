"""The pages around the start: the first one, the help of the settings, cards after a crash, failed starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.assets import FOLDER
from app.first_run.machine_words import FirstLook, gpu_fact, memory_fact, processor_fact
from app.problems import Action, Problem
from app.start_error import StartError, failure_box, missing_library
from app.translation import tr
from engine.hub.catalogue import read_catalogue
from engine.hub.recommend import GB, Memories, recommend
from engine.hub.updates import Release
from engine.telemetry.doctor import Check, Health

if TYPE_CHECKING:
    from tests.screenshots import Stage

FAILED_STARTS = ("libegl", "xcb-cursor", "old-processor", "no-folder", "newer-data")
HELP_PAGES = {"first-run", "preferences-help", "doctor", "logs", "gpu-support", "updates", "after-crash"} | {
    f"start-{name}" for name in FAILED_STARTS
}
CHECKS = [
    Check("Processor", Health.GOOD, "AMD Ryzen 7 7700, 8 cores, 16 threads"),
    Check("CPU kernels", Health.GOOD, "avx512_vnni"),
    Check("Memory", Health.LIMITED, "31.2 GiB, 1.4 GiB available", "Close other programs before loading a model."),
    Check("GPU 0", Health.GOOD, "NVIDIA GeForce RTX 3060, 12.0 GiB, driver 580.82"),
    Check(
        "GPU support",
        Health.LIMITED,
        "NVIDIA GeForce RTX 3060 is here, but not NVRTC, which compiles its kernels.",
        "Install GPU support under Settings, Help.",
    ),
    Check("Disk", Health.GOOD, "228.2 GB free for /home/ada/.local/share/Tessera/models"),
    Check("Tessera", Health.GOOD, "0.1.0, bundle"),
    Check("jinja2", Health.BROKEN, "Missing; needed for chat templates.", "Install Tessera again."),
]
LOG = """2026-11-29 20:14:02,118 INFO MainThread Tessera 0.1.0 started
2026-11-29 20:14:03,402 INFO engine SmolLM2-135M-Instruct.Q4_1.gguf loaded by the native engine in 0.8 s
2026-11-29 20:15:41,020 WARNING MainThread Qt: could not open /home/ada/Pictures/cat.heic: unknown image format
2026-11-29 20:15:44,771 ERROR engine unexpected error
Traceback (most recent call last):
  File "/usr/lib/tessera/_internal/app/chat/session.py", line 212, in _answer
OSError: [Errno 28] No space left on device: '/home/ada/.local/share/Tessera/conversations.db'
"""


def help_pages(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    context = stage.start()
    window = context.window
    window.show_page("welcome")
    page = window.page("welcome")
    _settle_until(stage, page.facts.count)  # this computer's own facts would come in between
    models = recommend(read_catalogue(FOLDER / "catalogue.json"), Memories(32 * GB, 60e9))
    facts = (
        memory_fact(32 * GB),
        processor_fact("AMD Ryzen 7 7700", 8, "avx512_vnni"),
        gpu_fact(("NVIDIA GeForce RTX 3060", 12 * GB), usable=False),
    )
    page.show_look(FirstLook(facts, tuple(models), measured=False))
    stage.settle(0.2)
    yield "first-run", window
    window.show_page("preferences")
    bar = window.page("preferences").verticalScrollBar()
    stage.settle(0.1)
    bar.setValue(bar.maximum())
    stage.settle(0.1)
    yield "preferences-help", window
    window.show_page("doctor")
    _settle_until(stage, lambda: len(window.page("doctor").rows))
    window.page("doctor").show_checks(CHECKS)
    stage.settle(0.2)
    yield "doctor", window
    stage.data.logs.mkdir(exist_ok=True)
    (stage.data.logs / "tessera.log").write_text(LOG)
    window.show_page("logs")
    stage.settle(0.4)
    yield "logs", window
    window.show_page("gpu")
    stage.settle(0.2)
    yield "gpu-support", window
    context.settings.set("update_feed", "https://example.org/tessera/releases.json")
    window.show_page("updates")
    window.page("updates")._found(Release("0.2.0", "https://example.org/tessera/0.2.0", is_newer=True))
    stage.settle(0.2)
    yield "updates", window
    window.show_page("chat")
    name = "Qwen3-8B-Q4_K_M.gguf"
    context._tell_crash()
    context.problems.show(
        Problem(
            "model",
            tr("Tessera crashed while {name} was loaded.", name=name),
            tr("The model was not loaded again on its own."),
            tr("Load it anyway, or choose another model."),
            (Action(tr("Load it anyway"), lambda: None, primary=True),),
        )
    )
    window.chat_page.composer.set_text("What I was writing when it happened")
    stage.settle(0.2)
    yield "after-crash", window
    yield from _failed_starts(stage)


def _settle_until(stage: Stage, condition: Callable[[], int]) -> None:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        stage.settle(0.1)


def _failed_starts(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    """Their words; the frame is drawn by zenity, kdialog or xmessage on a real desktop, and stood in for here."""
    loader = "{}: cannot open shared object file: No such file or directory"
    release = stage.data.root / "os-release"
    release.write_text("ID=ubuntu\nID_LIKE=debian\n")
    failures = {
        "libegl": missing_library(loader.format("libEGL.so.1"), release),
        "xcb-cursor": missing_library(loader.format("libxcb-cursor.so.0"), release),
        "old-processor": StartError(
            tr("This processor is too old for Tessera: it lacks {features}.", features="sse4_1, sse4_2"),
            tr("An x86-64 processor from 2009 or later is needed, one with AVX2 (2013 or later) recommended."),
        ),
        "no-folder": StartError(
            tr("The folder {path} cannot be used: {error}.", path="/home/ada/.local/share/Tessera",
               error="Read-only file system"),
            tr("Check the free space and the permissions of {path}.", path="/home/ada/.local/share"),
        ),
        "newer-data": StartError(
            tr("The data in {path} was written by a newer version of Tessera.", path="/home/ada/.local/share/Tessera"),
            tr("Update Tessera, or start it with another data folder (--data-dir)."),
        ),
    }  # fmt: skip
    log = tr("Log: {path}", path=Path("/home/ada/.local/share/Tessera/logs/start.log"))
    for name, failure in failures.items():
        box = failure_box(f"{failure.cause}\n\n{failure.remedy}\n\n{log}")
        box.show()
        stage.settle(0.1)
        yield f"start-{name}", box
        box.close()
        box.deleteLater()
