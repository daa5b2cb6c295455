"""What prevents the window is said with its remedy, shown by what there is, and logged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.arguments import parse
from app.start_error import (
    StartError,
    check_libraries,
    check_processor,
    distribution_family,
    failure_box,
    missing_library,
    report,
    show,
)
from app.translation import chosen_language

LOADER = "lib{name}: cannot open shared object file: No such file or directory"


def os_release(folder: Path, text: str) -> Path:
    path = folder / "os-release"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("release", "library", "command"),
    [
        ("ID=debian\n", "xcb-cursor.so.0", "sudo apt install libxcb-cursor0"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "EGL.so.1", "sudo apt install libegl1"),
        ("ID=fedora\n", "xcb-cursor.so.0", "sudo dnf install xcb-util-cursor"),
        ("ID=manjaro\nID_LIKE=arch\n", "EGL.so.1", "sudo pacman -S libglvnd"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "EGL.so.1", "sudo zypper in libglvnd"),
    ],
)
def test_a_missing_library_names_the_package_of_the_distribution(tmp_path, release, library, command):
    failure = missing_library(LOADER.format(name=library), os_release(tmp_path, release))
    assert f"lib{library}" in failure.cause
    assert command in failure.remedy


@pytest.mark.skipif(sys.platform != "linux", reason="libraries of Linux")
def test_the_bundles_loader_hides_no_librarys_name(monkeypatch):
    def load(_path: str) -> None:
        raise OSError("Failed to load dynlib/dll") from OSError(LOADER.format(name="xcb-cursor.so.0"))

    monkeypatch.setattr("app.start_error.platform_is_chosen", lambda: False)
    monkeypatch.setattr("ctypes.CDLL", load)
    with pytest.raises(StartError, match=r"libxcb-cursor\.so\.0 is missing"):
        check_libraries()


def test_an_unknown_distribution_or_library_gets_the_librarys_name(tmp_path):
    assert distribution_family(tmp_path / "missing") == ""
    unknown = missing_library(LOADER.format(name="EGL.so.1"), os_release(tmp_path, "ID=plan9\n"))
    assert "libEGL.so.1" in unknown.remedy
    assert "libodd.so.3" in missing_library(LOADER.format(name="odd.so.3"), os_release(tmp_path, "ID=debian\n")).remedy
    assert "undefined symbol" in missing_library("undefined symbol: x", tmp_path).cause


def test_a_processor_that_is_too_old_is_told_what_it_lacks(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu sse sse2 ssse3 popcnt\n")
    with pytest.raises(StartError, match="sse4_1, sse4_2"):
        check_processor(info)
    info.write_text("flags\t\t: fpu ssse3 sse4_1 sse4_2 popcnt\n")
    check_processor(info)
    check_processor(tmp_path / "missing")


def fake_program(folder: Path, name: str, status: int) -> Path:
    """A program that notes what it was called with, one argument a line."""
    told = folder / f"{name}.told"
    program = folder / name
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}\nexit {status}\n')
    program.chmod(0o755)
    return told


@pytest.mark.skipif(sys.platform != "linux", reason="the dialogs of Linux desktops")
def test_the_next_program_is_tried_when_one_cannot_show_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    first, second = fake_program(tmp_path, "zenity", 255), fake_program(tmp_path, "kdialog", 0)
    assert show("Something <b>is</b> missing\n\nInstall it")
    assert "--text=Something <b>is</b> missing" in first.read_text()
    assert "Something <b>is</b> missing" in second.read_text()
    for name in ("zenity", "kdialog"):
        (tmp_path / name).unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not show("nobody shows this")


def test_it_is_logged_with_its_traceback_and_where_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        raise RuntimeError("boom")
    except RuntimeError as error:
        assert report(error, tmp_path / "logs") == 1
    log = tmp_path / "logs" / "start.log"
    said = capsys.readouterr().err
    assert "RuntimeError: boom" in said
    assert str(log) in said
    assert "Traceback" in log.read_text()
    (tmp_path / "file").write_text("")
    report(StartError("No.", "Do."), tmp_path / "file" / "logs")
    assert "tessera-start.log" in capsys.readouterr().err


def start(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    fake_program(tmp_path, "zenity", 0)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "QT_QPA_PLATFORM": "offscreen", **variables}
    command = [sys.executable, "-m", "app", "--data-dir", str(tmp_path / "data")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="a library of Linux")
def test_without_libegl_the_start_says_so_in_a_dialog(tmp_path):
    package = tmp_path / "path" / "PySide6"
    package.mkdir(parents=True)
    message = LOADER.format(name="EGL.so.1")
    (package / "__init__.py").write_text(f"raise ImportError({message!r})\n")
    done = start(tmp_path, PYTHONPATH=str(tmp_path / "path"))
    assert done.returncode == 1
    assert "libEGL.so.1" in (tmp_path / "zenity.told").read_text()
    assert str(tmp_path / "data/logs/start.log") in done.stderr


def without_kernels(tmp_path: Path) -> dict[str, str]:
    """Variables of a start that finds no native kernels."""
    path = tmp_path / "path"
    path.mkdir(exist_ok=True)
    (path / "sitecustomize.py").write_text("import sys; sys.modules['kernels._cpu'] = None\n")
    return {"PYTHONPATH": str(path)}


def test_without_kernels_the_start_says_so_in_a_dialog(tmp_path):
    done = start(tmp_path, **without_kernels(tmp_path))
    assert done.returncode == 1
    assert "make run" in (tmp_path / "zenity.told").read_text()
    assert "Traceback" in (tmp_path / "data/logs/start.log").read_text()


@pytest.mark.parametrize("arguments", [["info", "x.gguf"], ["chat", "x.gguf"]])
def test_without_kernels_a_command_ends_with_a_sentence(tmp_path, arguments):
    environment = os.environ | without_kernels(tmp_path)
    command = [sys.executable, "-m", "app", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Tessera's native kernels cannot be loaded")
    assert "Traceback" not in done.stderr


def test_what_fails_before_the_window_is_said_in_the_owners_language(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/settings.json").write_text('{"language": "zh_CN"}')
    (tmp_path / "data/version.json").write_text('{"version": 99}')
    start(tmp_path)
    assert "更新版本的 Tessera" in (tmp_path / "zenity.told").read_text()
    done = start(tmp_path, **without_kernels(tmp_path))
    assert "内核" in (tmp_path / "zenity.told").read_text()
    assert "make run" in done.stderr


def test_the_dialogs_heading_is_the_cause_alone(qtbot):
    qtbot.addWidget(box := failure_box("It is missing.\n\nInstall it.\n\nLog: /l"))
    assert (box.text(), box.informativeText()) == ("It is missing.", "Install it.\n\nLog: /l")


@pytest.mark.skipif(sys.platform != "linux", reason="variables of Linux sessions")
def test_the_sessions_language_is_known_without_qt(tmp_path, monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setitem(sys.modules, "PySide6.QtCore", None)
    assert chosen_language("system") == "zh_CN"
    monkeypatch.setenv("LANGUAGE", "zh_TW:en")
    assert chosen_language("system") == "en"


def test_a_data_folder_that_cannot_be_used_is_a_start_error(tmp_path):
    (tmp_path / "data").write_text("a file")
    done = start(tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / "data") in (tmp_path / "zenity.told").read_text()


def test_a_double_click_on_a_model_opens_it():
    assert parse(["/models/My model.GGUF"]).open == Path("/models/My model.GGUF")
    assert parse(["--data-dir", "d", "x.gguf"]).open == Path("x.gguf")
    assert parse(["info", "x.gguf"]).command == "info"
    assert parse([]).open is None


def test_a_processor_without_avx2_runs_with_a_warning(start, qtbot, monkeypatch):
    monkeypatch.setattr("engine.telemetry.doctor.cpu_tier", lambda: "scalar")
    app = start()
    qtbot.waitUntil(lambda: any(card.problem.key == "processor" for card in app.page.problem_stack.cards))
    assert app.context.models.info is not None
