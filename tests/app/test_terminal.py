"""The headless front end: the same engine, no Qt."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from app.__main__ import main
from app.arguments import parser

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


@pytest.mark.parametrize("arguments", [["chat"], ["chat", "m", "p", "--max-tokens", "0"], ["unknown"]])
def test_wrong_arguments_are_explained(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_every_command_has_words():
    text = parser().format_help()
    for command in ("chat", "info", "doctor"):
        assert command in text
