"""Every parameter of a conversation, declared once. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.chat.parameters.json_schema import grammar_of
from engine.messages import Overflow, SamplingParams

# Without a penalty small models soon say the same again and again; 1.1 over the last 64 tokens is what people know.
_SAMPLING = SamplingParams(repetition_penalty=1.1)


@dataclass(frozen=True, slots=True)
class Parameter:
    """`default` gives the type. `off` is the value at which the stage does nothing, in words."""

    name: str
    default: float | int | str
    title: str
    help: str
    group: str
    minimum: float = 0.0
    maximum: float = 0.0
    step: float = 0.0
    off: tuple[float, str] | None = None
    lines: int = 0  # of text; 0: a number, or one of the choices
    choices: tuple[tuple[str, str], ...] = ()  # (value, words)


PROMPT, SAMPLING, LIMITS, OUTPUT = "Instructions", "Sampling", "Limits", "Form of the answer"

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "system_prompt",
        "",
        "System prompt",
        "Told to the model before everything else: who it is, how it should answer.",
        PROMPT,
        lines=5,
    ),
    Parameter(
        "reasoning",
        "auto",
        "Reasoning",
        "Whether the model thinks before it answers. Only some models let it be chosen.",
        PROMPT,
        choices=(("auto", "By the model"), ("on", "On"), ("off", "Off")),
    ),
    Parameter(
        "temperature",
        _SAMPLING.temperature,
        "Temperature",
        "How daring the choice of words is. 0 always takes the most likely one.",
        SAMPLING,
        0.0,
        5.0,
        0.05,
        (0.0, "greedy"),
    ),
    Parameter(
        "top_k",
        _SAMPLING.top_k,
        "Top-k",
        "Only the k most likely tokens are considered.",
        SAMPLING,
        0,
        1000,
        1,
        (0, "off"),
    ),
    Parameter(
        "top_p",
        _SAMPLING.top_p,
        "Top-p",
        "Only the most likely tokens that together have this probability are considered.",
        SAMPLING,
        0.0,
        1.0,
        0.01,
    ),
    Parameter(
        "min_p",
        _SAMPLING.min_p,
        "Min-p",
        "Tokens less likely than this share of the most likely one are left out.",
        SAMPLING,
        0.0,
        1.0,
        0.01,
        (0.0, "off"),
    ),
    Parameter(
        "repetition_penalty",
        _SAMPLING.repetition_penalty,
        "Repetition penalty",
        "Makes tokens that were used lately less likely. 1 does nothing.",
        SAMPLING,
        0.1,
        3.0,
        0.01,
    ),
    Parameter(
        "presence_penalty",
        _SAMPLING.presence_penalty,
        "Presence penalty",
        "Taken from a token once it was used at all.",
        SAMPLING,
        -2.0,
        2.0,
        0.05,
    ),
    Parameter(
        "frequency_penalty",
        _SAMPLING.frequency_penalty,
        "Frequency penalty",
        "Taken from a token for each time it was used.",
        SAMPLING,
        -2.0,
        2.0,
        0.05,
    ),
    Parameter(
        "penalty_last_n",
        _SAMPLING.penalty_last_n,
        "Penalised tokens",
        "How many of the last tokens the penalties look at.",
        SAMPLING,
        0,
        100_000,
        16,
    ),
    Parameter(
        "seed",
        -1,
        "Seed",
        "The same seed gives the same answer to the same conversation.",
        SAMPLING,
        -1,
        2_147_483_647,
        1,
        (-1, "a new one each time"),
    ),
    Parameter(
        "max_tokens",
        0,
        "Longest answer",
        "In tokens; the answer is ended there.",
        LIMITS,
        0,
        1_000_000,
        64,
        (0, "no limit"),
    ),
    Parameter(
        "context_length",
        0,
        "Context length",
        "Tokens this conversation may span. Another length than the loaded one means loading the model again.",
        LIMITS,
        0,
        16_777_216,
        1024,
        (0, "as in the settings"),
    ),
    Parameter(
        "overflow",
        "ask",
        "When the context is full",
        "Whatever is left out is said under the answer.",
        LIMITS,
        choices=(("ask", "Ask what to do"), ("trim", "Leave out the oldest")),
    ),
    Parameter(
        "stop",
        "",
        "Stop strings",
        "One a line; the answer ends before the first that appears.",
        LIMITS,
        lines=2,
    ),
    Parameter(
        "json_schema",
        "",
        "JSON schema",
        "The answer is forced to be JSON of this form.",
        OUTPUT,
        lines=4,
    ),
    Parameter(
        "grammar",
        "",
        "Grammar (GBNF)",
        "The answer is forced to match it. Not together with a JSON schema.",
        OUTPUT,
        lines=4,
    ),
)
BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


@dataclass(frozen=True, slots=True)
class Answering:
    """Parameters in the engine's terms."""

    system_prompt: str
    sampling: SamplingParams
    max_tokens: int | None
    stop: tuple[str, ...]
    reasoning: bool | None
    overflow: Overflow


def changed_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Only known parameters that differ from their defaults: what is stored."""
    return {name: value for name, value in values.items() if name in BY_NAME and value != BY_NAME[name].default}


def answering(values: Mapping[str, Any]) -> Answering:
    """Raises SchemaError for a JSON schema that cannot be kept to."""
    full = {parameter.name: values.get(parameter.name, parameter.default) for parameter in PARAMETERS}
    schema = str(full["json_schema"]).strip()
    sampling = SamplingParams(
        temperature=float(full["temperature"]),
        top_k=int(full["top_k"]),
        top_p=float(full["top_p"]),
        min_p=float(full["min_p"]),
        repetition_penalty=float(full["repetition_penalty"]),
        presence_penalty=float(full["presence_penalty"]),
        frequency_penalty=float(full["frequency_penalty"]),
        penalty_last_n=int(full["penalty_last_n"]),
        seed=int(full["seed"]) if int(full["seed"]) >= 0 else None,
        grammar=grammar_of(schema) if schema else str(full["grammar"]),
    )
    stop = tuple(line for line in str(full["stop"]).split("\n") if line)
    reasoning = {"on": True, "off": False}.get(str(full["reasoning"]))
    return Answering(
        str(full["system_prompt"]).strip(),
        sampling,
        int(full["max_tokens"]) or None,
        stop,
        reasoning,
        Overflow.TRIM_OLDEST if full["overflow"] == "trim" else Overflow.ASK,
    )
