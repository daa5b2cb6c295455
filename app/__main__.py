"""Start: arguments → window, terminal or subcommand. Imports stay out of the way of the first paint."""

from __future__ import annotations

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
    sys.exit(main())
