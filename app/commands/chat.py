"""`tessera chat MODEL "prompt"`: one answer in the terminal, or a conversation without a prompt."""

from __future__ import annotations

import argparse
import sys

from app.chat.parameters.table import answering
from app.terminal import Terminal, TerminalOptions
from engine.errors import EngineError
from engine.messages import LoadOptions, SamplingParams
from engine.runtime.devices.device import parse_device


def run(options: argparse.Namespace) -> int:
    """0: answered; 1: the model could not be loaded, or the answer ended with an error."""
    sampling = SamplingParams(temperature=0.0) if options.greedy else answering({}).sampling
    try:
        _check(options)
        device = parse_device(options.device)
    except EngineError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    load = LoadOptions(
        options.context,
        options.threads,
        kv_type=options.kv_type,
        engine=options.engine,
        device=device.kind,
        gpu_budget=device.budget,
        trace=str(options.trace) if options.trace else None,
    )
    settings = TerminalOptions(sampling, options.max_tokens, load, options.quiet)
    with Terminal(settings) as terminal:
        if not terminal.load(options.model):
            return 1
        if options.prompt is None:
            return terminal.converse()
        return 0 if terminal.ask(options.prompt) else 1


def _check(options: argparse.Namespace) -> None:
    """EngineError where one option would leave another without effect."""
    if options.engine == "compatibility" and options.device not in ("auto", "cpu"):
        raise EngineError(
            "The compatibility engine runs on the processor alone.",
            remedy="Leave --device out, or take our own engine: --engine native.",
        )
    if options.engine == "compatibility" and options.trace:
        raise EngineError("The compatibility engine writes no trace.", remedy="Leave --trace out.")
