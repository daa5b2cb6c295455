"""The command line, declared in one place. Nothing is imported that the chosen command does not need."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="tessera", description="Run language models larger than your graphics card. Without a command: the window."
    )
    top.add_argument("--data-dir", type=Path, metavar="DIR", help="keep conversations and settings here")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    _chat(commands.add_parser("chat", help="answer in the terminal"))
    info = commands.add_parser("info", help="show what a model file holds and which engine runs it")
    info.add_argument("file", type=Path, metavar="FILE")
    info.add_argument("--json", action="store_true", help="for programs")
    commands.add_parser("doctor", help="check this computer: what is here, what is missing, how to get it")
    return top


def _chat(chat: argparse.ArgumentParser) -> None:
    chat.add_argument("model", type=Path, metavar="MODEL", help="a GGUF file")
    chat.add_argument("prompt", nargs="?", metavar="PROMPT", help="without one: a conversation, line by line")
    chat.add_argument("--greedy", action="store_true", help="always take the most likely token")
    chat.add_argument("--max-tokens", type=_positive, metavar="N", help="end the answer after N tokens")
    chat.add_argument("--threads", type=_positive, metavar="N", help="processor threads")
    chat.add_argument("--context", type=_positive, metavar="N", help="tokens the conversation may span")
    chat.add_argument("--quiet", action="store_true", help="the answer alone")
    chat.add_argument("--engine", choices=("auto", "native", "compatibility"), default="auto")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value
