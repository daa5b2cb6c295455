"""One measured system: what a benchmark asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

PROMPT = b"Hello"  # one token in the vocabularies we measure with


@dataclass(frozen=True, slots=True)
class Setup:
    """How a system is to run a model. `variant` names the system's own switches, e.g. "not repacked"."""

    path: str
    threads: int
    context_length: int
    variant: str = ""
    micro_batch: int = 512
    device: str = "cpu"  # what computes beside the processor, with its budget, as on the command line
    trace: str | None = None
    gpu_layers: int = 0  # that the peer puts on a GPU, where its build can
    kv_type: Literal["f16", "q8_0"] = "f16"  # of keys and values


class Contestant(Protocol):
    """A loaded model. Token ids are fixed, so that no system samples; every call returns wall seconds."""

    def prefill(self, tokens: int) -> float:
        """Seconds to evaluate a fresh prompt of `tokens`, with logits for the last one."""

    def fill(self, depth: int) -> None:
        """Leaves exactly `depth` positions in the KV cache, untimed; what is there already is kept."""

    def decode(self, tokens: int) -> float:
        """Seconds to evaluate `tokens` one after another on top of what is in the cache, logits each."""

    def close(self) -> None:
        """Writes what is to be kept of the run; nothing is called afterwards."""


@dataclass(frozen=True, slots=True)
class Pause:
    """What passes between two tokens of an answer: medians in seconds.

    `between` runs from the last logits to the start of the next token's evaluation; `step` is one whole token.
    """

    between: float
    step: float


class Answerer(Protocol):
    """A system from an unloaded file to the text of an answer, with tokenizer and sampler; files are warm."""

    def first_token(self) -> float:
        """Seconds from asking for the model to the first token's text, for a prompt of one token. Once per object."""

    def pause(self, tokens: int) -> Pause:
        """Of an answer of at most `tokens` tokens, after `first_token`."""

    def close(self) -> None:
        """Nothing is called afterwards."""


def benchmark_tokens(count: int, vocabulary: int) -> list[int]:
    """The same pseudo-random ids for every system; a plain linear congruential sequence (Knuth's MMIX constants)."""
    ids, state = [], 20_260_101
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        ids.append((state >> 33) % vocabulary)
    return ids
