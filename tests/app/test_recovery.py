"""After a crash: nothing loads by itself, what was written is there, and a report can be saved."""

from __future__ import annotations

from app.crash import CrashHandler
from app.draft import Draft
from app.log_text import read_tail, without_personal
from app.model_crashes import ModelCrashes
from engine.messages import LoadModel


def crash(data_folder, path: str) -> None:
    """As a process leaves things that dies with a model loaded."""
    ModelCrashes(data_folder).loaded(path)
    data_folder.logs.mkdir(exist_ok=True)
    (data_folder.logs / "native-crash.log").write_text("Fatal Python error: Segmentation fault\n")


def test_after_a_crash_no_model_is_loaded_by_itself(start, qtbot, data_folder, monkeypatch):
    model = str(data_folder.models / "Scripted-1B.Q4_K_M.gguf")
    crash(data_folder, model)
    original = CrashHandler.__init__

    def crashed(self, folder):
        original(self, folder)
        self.crashed_before = True

    monkeypatch.setattr(CrashHandler, "__init__", crashed)
    app = start(wait_for_model=False)
    qtbot.waitUntil(lambda: len(app.page.problem_stack.cards) == 2)
    assert not any(isinstance(command, LoadModel) for command in app.engine.commands)
    problems = {card.problem.key: card.problem for card in app.page.problem_stack.cards}
    assert "Scripted-1B" in problems["model"].cause
    path = data_folder.root / "report.txt"
    app.context.save_report(path)
    qtbot.waitUntil(path.is_file, timeout=30_000)
    qtbot.waitUntil(lambda: "Processor" in path.read_text(), timeout=30_000)
    assert str(data_folder.root) not in path.read_text()
    problems["model"].actions[0].run()
    qtbot.waitUntil(lambda: app.context.models.info is not None)


def test_a_model_that_crashed_twice_is_marked(start, qtbot, data_folder):
    model = str(data_folder.models / "Scripted-1B.Q4_K_M.gguf")
    for _ in range(2):
        crash(data_folder, model)
        ModelCrashes(data_folder).note_start(native_crash=True)
    app = start(wait_for_model=False)
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    assert "2" in app.page.problem_stack.cards[0].problem.cause
    assert not any(isinstance(command, LoadModel) for command in app.engine.commands)
    app.context.models.load(model)
    qtbot.waitUntil(lambda: app.context.models.info is not None)
    app.context.close()
    assert ModelCrashes(data_folder).count(model) == 0  # it ran, and all ended well


def test_only_what_may_have_ended_the_process_is_counted(data_folder):
    ModelCrashes(data_folder).loaded("a.gguf")  # killed while it was loaded, without a crash
    crashes = ModelCrashes(data_folder)
    crashes.note_start(native_crash=False)
    assert crashes.count("a.gguf") == 0
    ModelCrashes(data_folder).loading("a.gguf")  # gone while it was being loaded
    crashes = ModelCrashes(data_folder)
    assert crashes.was_loading
    crashes.note_start(native_crash=False)
    assert crashes.count("a.gguf") == 1
    crashes.left()
    assert ModelCrashes(data_folder).previous is None
    data_folder.crash_record.write_text("[1")
    assert crashes.count("a.gguf") == 0


def test_what_was_being_written_is_there_again(start, qtbot, data_folder):
    first = start()
    first.page.composer.set_text("Dear diary, 漢字 🙂")
    qtbot.waitUntil(data_folder.draft.is_file)
    first.context.close()
    second = start()
    qtbot.waitUntil(lambda: second.page.composer.text == "Dear diary, 漢字 🙂")
    second.page.composer.clear()
    second.context.draft.save()
    qtbot.waitUntil(lambda: not data_folder.draft.exists())
    assert isinstance(second.context.draft, Draft)


PERSONAL = {
    "could not open /home/ada/My models/x.gguf: No such file": "could not open <path>: No such file",
    "open /m/My big model.gguf failed": "open <path> failed",
    r"C:\Users\Ada Lovelace\x.gguf is bad": "<path> is bad",
    "GET https://user:pw@host/x?y=1 failed": "GET <address> failed",
    "Authorization: Bearer abc.def-ghi": "Authorization: <secret>",
    "token is hf_abcdefghijklmnop123": "token is <token>",
    "ada@example.org wrote": "<address> wrote",
    "ratio 3/4 at 12:30:11, 8 tok/s": "ratio 3/4 at 12:30:11, 8 tok/s",
    'File "/usr/lib/tessera/_internal/app/window.py", line 3': 'File "app/window.py", line 3',
}


def test_a_copied_log_holds_no_paths_and_no_secrets(tmp_path):
    for text, expected in PERSONAL.items():
        assert without_personal(text, tmp_path / "ada") == expected


def test_a_long_log_is_read_from_the_beginning_of_a_line(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    tail = read_tail(log, 100)
    assert tail.startswith("line ")
    assert tail.endswith("line 999\n")
    assert read_tail(tmp_path / "missing") == ""
