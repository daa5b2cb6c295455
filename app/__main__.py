"""Start: arguments → window, terminal or subcommand. Imports stay out of the way of the first paint."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str] | None = None) -> int:
    """Returns the process's exit status."""
    from app.arguments import parser

    options = parser().parse_args(arguments)
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
    from app.environment import has_display

    if not has_display():
        from app.terminal import run_without_display

        return run_without_display(options.data_dir)
    from app.window import run_window

    return run_window(options.data_dir)


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
