"""Start: arguments → window, terminal or subcommand. Imports stay out of the way of the first paint."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.environment import DataFolder


def main(arguments: list[str] | None = None) -> int:
    """Returns the process's exit status."""
    from app.arguments import parse

    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.command in ("chat", "info", "bench", "smoke"):  # doctor tells of it, plan needs none
        from engine.native_build import check_native_build

        check_native_build()
    match options.command:
        case "chat":
            from app.commands.chat import run

            return run(options)
        case "info":
            from app.commands.info import run

            return run(options)
        case "bench":
            from engine.benchmark.bench import run

            return run(options)
        case "plan":
            from engine.placement.report import run

            return run(options)
        case "doctor":
            from app.commands.doctor import run

            return run(options)
        case "smoke":
            from app.commands.smoke import run

            return run(options)
    from app.environment import DataFolder, has_display

    folder = DataFolder(options.data_dir) if options.data_dir is not None else DataFolder.default()
    if not has_display():
        from app.terminal import run_without_display
        from engine.native_build import check_native_build

        check_native_build()
        return run_without_display(folder, options.open)
    return _run_window(folder, options.open)


def _run_window(folder: DataFolder, model: Path | None) -> int:
    """The window; what prevents it is shown by other means, and logged."""
    from app.translation import speak_before_window

    speak_before_window(folder.settings)
    try:
        from app.start_error import check_kernels, check_libraries, check_processor

        check_processor()
        check_kernels()
        check_libraries()
        from app.window import run_window

        return run_window(folder, model)
    except Exception as error:
        from app.start_error import report

        return report(error, folder.logs)


def run_process() -> int:
    """`main` on standard streams that may be closed, full, or unable to hold every character."""
    from engine.native_build import NativeBuildError

    nowhere = Path(os.devnull)  # for streams that are closed, as those of Windows programs without a console
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        status = 0
    except KeyboardInterrupt:
        status = 130  # as shells report an interrupt
    except (OSError, NativeBuildError) as error:
        print(f"Error: {error}", file=sys.stderr)
        status = 1
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left over finds no reader
    return status


if __name__ == "__main__":
    sys.exit(run_process())
