"""The arguments of `plan`. Imports nothing heavy: the command line is declared before anything is asked of it."""

from __future__ import annotations

import argparse
import re

from engine.processors import usable_processors

MODES = ("decode", "prefill", "least-memory")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(GIB|MIB|GB|MB|G|M|)", re.IGNORECASE)
_UNITS = {"GIB": 1 << 30, "G": 1 << 30, "": 1 << 30, "MIB": 1 << 20, "M": 1 << 20, "GB": 10**9, "MB": 10**6}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", type=not_empty, metavar="FILE|REPO", help="a GGUF file, or owner/name[:QUANT] on the hub"
    )
    card = parser.add_mutually_exclusive_group()
    card.add_argument("--gpu", metavar="NAME", help='a GPU of the catalogue ("RTX 4090"), or "none"')
    parser.add_argument("--cpu", metavar="NAME", help='a CPU of the catalogue ("Core i7-11700")')
    card.add_argument(
        "--device",
        metavar="DEVICE",
        help="this computer's own card, and how much of its memory: cuda, cuda:6GiB; or emulated:256MiB",
    )
    parser.add_argument("--ram", type=parse_size, metavar="SIZE", help="RAM of the machine, as 64GiB")
    parser.add_argument("--budget", type=parse_size, metavar="SIZE", help="GPU memory that may be used, as 6GiB")
    parser.add_argument("--context", type=int, default=4096, metavar="N", help="tokens of context (4096)")
    add_kv_type(parser)
    parser.add_argument("--prompt", type=int, metavar="N", help="tokens of the prompt to predict for (2048)")
    parser.add_argument("--mode", choices=MODES, default=MODES[0], help="what to be best at")
    parser.add_argument("--threads", type=thread_count, metavar="N", help="processor threads")
    parser.add_argument("--measure", action="store_true", help="measure this machine again")
    parser.add_argument("--json", action="store_true", help="for programs")


def add_kv_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kv-type",
        choices=("f16", "q8_0"),
        default="f16",
        help="of keys and values; q8_0 takes 53 %% of the memory (default f16)",
    )


def not_empty(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def thread_count(text: str) -> int:
    """Not more than `usable_processors`."""
    value, most = positive(text), usable_processors()
    if value > most:
        raise argparse.ArgumentTypeError(f"{value} is more than the {most} logical processors that can be used here")
    return value


def parse_size(text: str) -> int:
    """Bytes of "6GiB", "6" (GiB), "512 MiB", "24GB"."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 6GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])
