"""The command line, declared in one place. Nothing is imported that the chosen command does not need."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.placement.arguments import add_arguments as plan_arguments
from engine.placement.arguments import add_kv_type, not_empty, positive, thread_count

COMMANDS = ("chat", "info", "bench", "plan", "doctor", "smoke")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; `tessera FILE`, as a double click on a model starts it, is `tessera --open FILE`."""
    top = parser()
    if arguments and not arguments[-1].startswith("-") and arguments[-1].lower().endswith(".gguf"):
        command = next((one for one in arguments[:-1] if one in COMMANDS), None)
        if command is None and "--open" not in arguments:
            arguments = [*arguments[:-1], "--open", arguments[-1]]
    options = top.parse_args(arguments)
    if options.command is not None and options.open is not None:
        top.error(f"--open is for the window; {options.command} takes its model by itself")
    if options.command not in (None, "plan", "doctor") and options.data_dir is not None:
        top.error(f"--data-dir is for the window, plan and doctor; {options.command} keeps nothing there")
    return options


def _path(text: str) -> Path:
    return Path(not_empty(text))  # an empty one would be the current folder


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="tessera", description="Run language models larger than your graphics card. Without a command: the window."
    )
    top.add_argument(
        "--data-dir",
        type=_path,
        metavar="DIR",
        help="keep conversations and settings here; doctor checks it, plan keeps what it measures here",
    )
    top.add_argument("--open", type=_path, metavar="FILE", help="open the window with this model; FILE alone does too")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    _chat(commands.add_parser("chat", help="answer in the terminal"))
    info = commands.add_parser("info", help="show what a model file holds and which engine runs it")
    info.add_argument("file", type=_path, metavar="FILE")
    info.add_argument("--json", action="store_true", help="for programs")
    _bench(commands.add_parser("bench", help="measure a model's speed on this computer"))
    plan_arguments(commands.add_parser("plan", help="show what would go where on a computer, and how fast it would be"))
    smoke = commands.add_parser("smoke", help="open the window, load the starter model, ask, and end: does it work?")
    smoke.add_argument(
        "model", nargs="?", type=_path, metavar="MODEL", help="a GGUF file in place of the starter model"
    )
    commands.add_parser("doctor", help="check this computer: what is here, what is missing, how to get it")
    return top


def _chat(chat: argparse.ArgumentParser) -> None:
    chat.add_argument("model", type=_path, metavar="MODEL", help="a GGUF file")
    chat.add_argument(
        "prompt", nargs="?", type=not_empty, metavar="PROMPT", help="without one: a conversation, line by line"
    )
    chat.add_argument("--greedy", action="store_true", help="always take the most likely token")
    chat.add_argument("--max-tokens", type=positive, metavar="N", help="end the answer after N tokens")
    chat.add_argument("--threads", type=thread_count, metavar="N", help="processor threads")
    chat.add_argument("--context", type=positive, metavar="N", help="tokens the conversation may span")
    add_kv_type(chat)
    chat.add_argument("--quiet", action="store_true", help="the answer alone")
    chat.add_argument("--engine", choices=("auto", "native", "compatibility"), default="auto")
    _device(chat, "auto")


def _bench(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("model", type=_path, metavar="MODEL", help="a GGUF file")
    bench.add_argument("--against", choices=("llama.cpp",), help="measure this one beside, in its best setting")
    bench.add_argument("--threads", type=thread_count, metavar="N", help="default: physical performance cores")
    bench.add_argument("--prefill", type=_lengths, default=(512,), metavar="N,…", help="prompt lengths (default 512)")
    bench.add_argument("--decode", type=positive, default=64, metavar="N", help="tokens per decode run (default 64)")
    bench.add_argument("--depth", type=_depths, default=(0,), metavar="N,…", help="depths for decode (default 0)")
    bench.add_argument("--rounds", type=positive, default=5, metavar="N", help="interleaved rounds (default 5)")
    add_kv_type(bench)
    bench.add_argument("--starts", action="store_true", help="also load to first token, memory, pause between tokens")
    bench.add_argument("--llama-bench", type=_path, metavar="PATH", help="add the rows of this llama-bench binary")
    bench.add_argument(
        "--patience", type=positive, metavar="SECONDS", help="begin no third round of a measure after so long"
    )
    bench.add_argument("--tier", default="", metavar="TIER", help="lower the ISA tier, e.g. scalar")
    bench.add_argument("--json", action="store_true", help="for programs")
    _device(bench, "cpu")


def _device(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument(
        "--device",
        default=default,
        metavar="DEVICE",
        help="what computes beside the processor, and how much of its memory: auto (an NVIDIA GPU, where one can be "
        f"used), cpu, cuda, cuda:6GiB, emulated:256MiB (default {default})",
    )
    command.add_argument("--trace", type=_path, metavar="FILE", help="write when what ran, in Chrome's trace format")


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def _depths(text: str) -> tuple[int, ...]:
    return tuple(0 if part.strip() == "0" else positive(part) for part in text.split(","))
