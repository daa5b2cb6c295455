"""What stands under an answer: engine, tokens, speeds, and why it ended. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat.generation import Generation
from app.store.records import Message, Status
from app.translation import engine_text, tr
from engine.messages import FinishReason

SEPARATOR = "  ·  "  # between the facts of one line


def summary(message: Message) -> str:
    """One line, the most telling first: its end may find no room. Our own engine is not named: the details do."""
    details = message.details
    parts: list[str] = []
    if ending := ending_of(message):
        parts.append(ending)
    if details.get("engine", "native") != "native":
        parts.append(engine_name(details["engine"]))
    if tokens := details.get("generated_tokens"):
        parts.append(tr("{count} tokens", count=f"{tokens:,}"))
    if speed := details.get("decode_speed"):
        words = tr("decode {speed} tok/s", speed=format_speed(speed))
        parts.append(_beside(words, details, "predicted_decode"))
    if "ttft" in details:
        parts.append(tr("first token {seconds}", seconds=format_seconds(details["ttft"])))
    if speed := details.get("prefill_speed"):
        words = tr("prefill {speed} tok/s", speed=format_speed(speed))
        parts.append(_beside(words, details, "predicted_prefill"))
    return SEPARATOR.join(parts)


def _beside(measured: str, details: Mapping[str, Any], key: str) -> str:
    """What was measured, and what had been predicted, where it was."""
    if not details.get(key):
        return measured
    speed = format_speed(details[key])
    match details.get("predicted_from"):
        case "emulated":
            predicted = tr("{speed} predicted for the emulated card", speed=speed)
        case "simulated":
            predicted = tr("{speed} simulated", speed=speed)
        case "datasheet":
            predicted = tr("{speed} predicted from datasheets", speed=speed)
        case _:
            predicted = tr("{speed} predicted", speed=speed)
    return tr("{measured} ({predicted})", measured=measured, predicted=predicted)


def prediction_source(details: Mapping[str, Any]) -> str:
    """Where a prediction comes from, as a sentence; empty without one."""
    sentences = {
        "measured": tr("Predicted from rates measured on this machine"),
        "mixed": tr("Predicted from measured rates of the processor and the GPU's datasheet"),
        "datasheet": tr("Predicted from datasheets, not from measured rates"),
        "simulated": tr("Simulated for the compatibility engine, from rates of this machine and published speeds"),
        "emulated": tr("Predicted for the card that is emulated; measured on this processor, which plays it"),
    }
    return sentences.get(details.get("predicted_from", ""), "")


def tooltip(message: Message) -> str:
    """Everything that was measured, one fact a line."""
    details = message.details
    lines: list[str] = []
    if model := details.get("model"):
        quantization = details.get("quantization", "")
        lines.append(f"{model} {quantization}".strip())
    if engine := details.get("engine"):
        lines.append(engine_name(engine))
    if "prompt_tokens" in details:
        new = details["prompt_tokens"] - details.get("reused_tokens", 0)
        lines.append(tr("{new} of {all} prompt tokens were new", new=f"{new:,}", all=f"{details['prompt_tokens']:,}"))
    if depth := details.get("depth"):
        lines.append(tr("Measured at a depth of {depth} tokens", depth=f"{depth:,}"))
    if source := prediction_source(details):
        lines.append(source)
    return "\n".join(lines)


def engine_name(engine: str) -> str:
    return tr("native engine") if engine == "native" else tr("compatibility engine")


def ending_of(message: Message) -> str:
    """Why the answer ended."""
    if message.status is Status.STREAMING:
        return ""
    if message.status is Status.INTERRUPTED:
        return tr("interrupted")
    endings = {
        FinishReason.STOP.value: tr("complete"),
        FinishReason.LENGTH.value: tr("ended at the token limit"),
        FinishReason.CONTEXT_FULL.value: tr("ended: the context is full"),
        FinishReason.ABORTED.value: tr("stopped by you"),
        FinishReason.ERROR.value: tr("ended by an error"),
    }
    return endings.get(message.details.get("reason", ""), "")


def progress(generation: Generation) -> str:
    """What is going on, while it goes on."""
    if generation.stopping:
        return tr("Stopping…")
    if generation.tokens:
        speed = generation.decode_speed
        count = tr("{count} tokens", count=f"{generation.tokens:,}")
        return SEPARATOR.join((count, tr("{speed} tok/s", speed=format_speed(speed)))) if speed else count
    if generation.prompt_tokens:
        return tr(
            "Reading the prompt: {done} of {all} tokens",
            done=f"{generation.prefilled_tokens:,}",
            all=f"{generation.prompt_tokens:,}",
        )
    return tr("Waiting for the model…")


def notes(message: Message) -> list[tuple[str, bool]]:
    """Remarks under the answer's text: (words, whether it is an error)."""
    details = message.details
    found: list[tuple[str, bool]] = []
    if trimmed := details.get("trimmed_messages"):
        words = tr("{count} of the oldest messages were left out to fit the context.", count=f"{trimmed:,}")
        found.append((words, False))
    found.extend((engine_text(str(warning)), False) for warning in details.get("warnings", ()))
    if message.status is Status.INTERRUPTED:
        found.append((tr("Tessera ended while this answer was being written. What had come is kept."), False))
    if error := details.get("error"):
        found.append((error_words(error), True))
    return found


def error_words(error: Mapping[str, Any]) -> str:
    return engine_text(str(error.get("cause", "")))


def format_speed(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def format_seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
