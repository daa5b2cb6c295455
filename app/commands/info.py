"""`tessera info FILE`: what a model file holds, and which engine runs it."""

from __future__ import annotations

import argparse
import sys

from engine.errors import EngineError
from engine.gguf.describe import describe, to_json
from engine.gguf.describe_text import to_text


def run(options: argparse.Namespace) -> int:
    """0: described; 1: the file could not be read, the reason goes to standard error."""
    try:
        description = describe(options.file)
    except EngineError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(to_json(description) if options.json else to_text(description))
    return 0
