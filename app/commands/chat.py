"""`tessera chat MODEL "prompt"`: one answer in the terminal, or a conversation without a prompt."""

from __future__ import annotations

import argparse

from app.terminal import Terminal, TerminalOptions
from engine.messages import LoadOptions, SamplingParams


def run(options: argparse.Namespace) -> int:
    """0: answered; 1: the model could not be loaded, or the answer ended with an error."""
    sampling = SamplingParams(temperature=0.0) if options.greedy else SamplingParams()
    load = LoadOptions(options.context, options.threads, engine=options.engine)
    settings = TerminalOptions(sampling, options.max_tokens, load, options.quiet)
    with Terminal(settings) as terminal:
        if not terminal.load(options.model):
            return 1
        if options.prompt is None:
            return terminal.converse()
        return 0 if terminal.ask(options.prompt) else 1
