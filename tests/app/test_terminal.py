"""The headless front end: the same engine, no Qt."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.__main__ import main
from app.arguments import COMMANDS, parser
from app.environment import has_display
from app.terminal import Terminal, TerminalOptions
from engine.messages import ErrorInfo, ModelLoadFailed, Notice, SamplingParams
from engine.placement.hardware import catalogue
from engine.processors import usable_processors

README = Path(__file__).parents[2] / "README.md"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if key not in DISPLAYS}
    command = [sys.executable, "-m", "app", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=240, env=variables)


def test_quiet_is_the_answer_alone(starter_model):
    question = ("chat", str(starter_model), "What is the capital of France?", "--greedy", "--max-tokens", "12")
    quiet = run(*question, "--quiet", "--threads", "2")
    assert quiet.returncode == 0, quiet.stderr
    assert quiet.stdout.strip()
    assert quiet.stderr == ""
    loud = run(*question, "--threads", "1")
    assert loud.stdout == quiet.stdout
    assert "SmolLM2 135M Instruct" in loud.stderr  # named as in the window
    for fact in ("native engine", "prefill", "decode", "first token"):
        assert fact in loud.stderr


def test_without_a_display_it_says_so_and_converses(starter_model, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / starter_model.name).symlink_to(starter_model)
    done = run("--data-dir", str(tmp_path), text="Say hi.\n\n")
    assert done.returncode == 0, done.stderr
    assert "no display" in done.stderr
    assert done.stdout.strip()


def test_without_a_display_and_without_a_model(tmp_path):
    done = run("--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "No model was found" in done.stderr


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    done = run("chat", str(tmp_path / "x.gguf"), "Hi")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "x.gguf" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_terminal_imports_no_qt():
    script = "import sys, app.terminal, app.commands.chat; print([m for m in sys.modules if 'PySide' in m])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [["chat"], ["chat", "m", "p", "--max-tokens", "0"], ["unknown"], ["plan", "m", "--gpu", "x", "--device", "cuda"]],
)
def test_wrong_arguments_are_explained(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--engine", "compatibility", "--device", "emulated:64MiB"], "runs on the processor alone"),
        (["--engine", "compatibility", "--trace", "trace.json"], "writes no trace"),
        (["--device", "cpu:4GiB"], "no memory of its own"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(options, reason, capsys):
    assert main(["chat", "model.gguf", "Hello", *options]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--open", "a.gguf", "chat", "b.gguf", "Hello"], "--open is for the window"),
        (["--data-dir", "folder", "chat", "b.gguf", "Hello"], "--data-dir is for the window"),
        (["--data-dir", "folder", "info", "b.gguf"], "--data-dir is for the window"),
    ],
)
def test_the_windows_options_are_refused_beside_commands(arguments, reason, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sampling"),
    [([], SamplingParams(repetition_penalty=1.1)), (["--greedy"], SamplingParams(temperature=0.0))],
)
def test_the_terminal_asks_as_the_window_does(options, sampling, monkeypatch):
    asked = []
    monkeypatch.setattr(Terminal, "load", lambda terminal, _: asked.append(terminal._options.sampling))
    assert main(["chat", "m.gguf", "Hello", *options]) == 1
    assert asked == [sampling]


def test_what_the_end_has_to_say_is_told():
    err = io.StringIO()
    with Terminal(TerminalOptions(), err=err) as terminal:
        terminal._events.put(Notice("No trace can be written.", "Name another file."))
    assert err.getvalue() == "No trace can be written. Name another file.\n"


def test_every_command_has_words():
    text = parser().format_help()
    for command in ("chat", "info", "doctor"):
        assert command in text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there always is a display")
def test_smoke_without_a_display_says_so():
    done = run("smoke")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no display" in done.stderr and "Qt" not in done.stderr


def test_the_smoke_test_s_clock_counts_no_more_than_there_was():
    begin = time.monotonic()
    code = "from app.commands.smoke import seconds_since_start as told; print(told())"
    told = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert 0 < told <= time.monotonic() - begin + 0.01  # a start is noted in hundredths


@pytest.mark.parametrize("command", ["bench", "plan", "chat"])
@pytest.mark.parametrize("threads", ["0", "-1", str(usable_processors() + 1), "100000", "x"])
def test_threads_that_cannot_be(command, threads, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "m.gguf", "--threads", threads])
    assert caught.value.code == 2
    assert "--threads" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["chat", ""],
        ["chat", "m.gguf", " "],
        ["chat", "m.gguf", "--trace", ""],
        ["info", ""],
        ["bench", ""],
        ["plan", ""],
        ["smoke", ""],
        ["--open", ""],
        ["--data-dir", ""],
    ],
)
def test_empty_names_are_no_names_of_the_current_folder(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [("plan", "--ram", "9" * 400), ("plan", "--budget", "9" * 400), ("chat", "--device", "emulated:" + "9" * 400)],
)
def test_sizes_beyond_all_bounds(arguments, capsys):
    try:
        status = main([arguments[0], "m.gguf", *arguments[1:]])
    except SystemExit as ended:
        status = ended.code
    assert status in (1, 2)
    assert "9999" in capsys.readouterr().err


def test_the_readmes_commands_are_understood():
    lines = [line for line in README.read_text("utf-8").splitlines() if line.startswith("    .venv/bin/python -m app ")]
    commands = [shlex.split(re.split(r"  +", line.strip())[0])[3:] for line in lines]
    assert {command[0] for command in commands if command} == set(COMMANDS)
    for command in commands:
        options = parser().parse_args([word for word in command if not word.startswith("[")])
        if options.command == "plan":
            assert catalogue.find_gpu(options.gpu)


def test_the_terminal_tells_notices(monkeypatch):
    events = [Notice("Its architecture is strange.", "It runs elsewhere."), ModelLoadFailed("m", ErrorInfo("E", "No."))]
    err = io.StringIO()
    terminal = Terminal(TerminalOptions(), err=err)
    terminal._engine = SimpleNamespace(send=lambda command: [terminal._events.put(event) for event in events])
    assert not terminal.load(Path("m"))
    assert err.getvalue().splitlines()[0] == "Its architecture is strange. It runs elsewhere."


@pytest.mark.parametrize("path", [".", "/tmp/" + "y" * 300, "/tmp" + "/abcdefgh" * 600, "/nope", "nowhere/at/all"])
@pytest.mark.parametrize("command", ["info", "plan"])
def test_paths_that_lead_nowhere(command, path):
    done = run(command, path)
    assert done.returncode == 1
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert "answer that makes no sense" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--prefill", "0"), ("--prefill", "8,-1"), ("--depth", "-1"), ("--prefill", "x"), ("--decode", "0")]
)
def test_measures_of_nothing_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["bench", "m.gguf", *arguments])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert arguments[0] in said and "invalid _" not in said


def test_an_unknown_tier_or_a_trace_without_a_place_is_said_before_anything_is_measured(tmp_path, capsys):
    assert main(["bench", "m.gguf", "--tier", "mmx"]) == 1
    assert "mmx" in capsys.readouterr().err
    trace = tmp_path / "missing" / "trace.json"
    assert main(["bench", "m.gguf", "--trace", str(trace)]) == 1
    assert str(trace) in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="shell redirections of POSIX")
@pytest.mark.parametrize(("output", "status"), [(">&-", 0), (">/dev/full", 1)])
def test_an_output_that_cannot_be_written_to(starter_model, output, status):
    if ">/dev/full" in output and not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is always full")
    command = f"'{sys.executable}' -m app info '{starter_model}' {output}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.returncode == status


def test_what_the_terminal_cannot_show_is_replaced(tmp_path):
    code = (
        "import sys, app.__main__ as m\n"
        "m.main = lambda: print('caf\\u00e9 \\U0001f31f') or 0; sys.exit(m.run_process())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == b"caf? ?"


def test_an_interrupt_at_the_start_ends_quietly(capsys, monkeypatch):
    code = (
        "import sys, app.__main__ as m\n"
        "def interrupted(): raise KeyboardInterrupt\n"
        "m.main = interrupted; sys.exit(m.run_process())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.skipif(sys.platform != "linux", reason="display servers are asked on Linux")
def test_a_display_that_is_gone_is_no_display(monkeypatch, tmp_path):
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    assert not has_display()
    monkeypatch.setenv("DISPLAY", ":987")
    assert not has_display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-9")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not has_display()
    (tmp_path / "wayland-9").touch()
    assert has_display()
