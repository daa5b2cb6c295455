"""Entry of the child process; commands on stdin, events on the original stdout."""

from __future__ import annotations

import logging
import os
import signal
import sys

from .child import Child


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the parent
    logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
    # Whatever a C library prints must not end up between messages.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Child(sys.stdin.buffer, sink).run()
    sink.flush()
    os._exit(0)  # no interpreter teardown beside llama.cpp's threads


if __name__ == "__main__":
    main()
