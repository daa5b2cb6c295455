"""`upgrade_folder.py write|read FOLDER`: a data folder as the version in PYTHONPATH leaves it; whether it opens here.

Both go through what a window is made of, with an engine that plays a script, so that no model is needed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.context import AppContext
from app.crash import CrashHandler
from app.data_version import bring_up_to_date
from app.environment import DataFolder
from app.none_guard import hold_singletons

QUESTION, ANSWER, DRAFT, PRESET = "What is a tessera?", "A small tile of a mosaic. 马赛克", "Not sent yet", "Mine"


def wait_for(application: QApplication, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("waited in vain")
        application.processEvents()
        time.sleep(0.005)


def write(application: QApplication, folder: DataFolder) -> None:
    from tests.support.scripted_engine import ScriptedEngine, model_info

    folder.models.mkdir(parents=True)
    model = folder.models / "Scripted-1B.Q4_K_M.gguf"
    model.write_bytes(b"GGUF")

    def engine(on_event: Callable) -> ScriptedEngine:
        made = ScriptedEngine(on_event)
        made.info, made.answer = model_info(str(model)), ANSWER
        return made

    bring_up_to_date(folder)
    context = AppContext(application, folder, CrashHandler(folder.logs), engine)
    context.window.show()
    wait_for(application, lambda: context.models.info is not None)
    context.settings.set("font_size", 18)
    context.presets.save(PRESET, {"temperature": 0.25})
    context.session.send(QUESTION)
    wait_for(application, lambda: context.session.path()[-1].status.value == "complete")
    context.window.chat_page.composer.set_text(DRAFT)
    wait_for(application, folder.draft.is_file)
    context.close()


def read(application: QApplication, folder: DataFolder) -> None:
    bring_up_to_date(folder)
    context = AppContext(application, folder, CrashHandler(folder.logs))
    shown = []
    context.problems.raised.connect(lambda problem: shown.append(problem.key))
    context.window.show()
    wait_for(application, lambda: context.conversations.rows())
    wait_for(application, lambda: context.window.chat_page.composer.text == DRAFT)
    (conversation,) = context.conversations.rows()
    context.session.open(conversation.id)
    wait_for(application, lambda: len(context.session.path()) == 2)
    assert [message.content for message in context.session.path()] == [QUESTION, ANSWER]
    assert context.settings["font_size"] == 18
    assert context.presets[PRESET] == {"temperature": 0.25}
    context.close()
    assert not {"settings", "store", "unexpected"} & set(shown), shown


if __name__ == "__main__":
    hold_singletons()
    {"write": write, "read": read}[sys.argv[1]](QApplication([]), DataFolder(Path(sys.argv[2])))
