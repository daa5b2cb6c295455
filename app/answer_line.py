"""One line about an answer for the terminal: engine, tokens, prefill and decode apart, and why it ended."""

from __future__ import annotations

from engine.messages import GenerationFinished, ModelInfo


def facts_line(info: ModelInfo, finished: GenerationFinished) -> str:
    stats = finished.stats
    if stats is None:
        return f"[{info.engine} | {finished.reason.value}]"
    new = stats.prompt_tokens - stats.reused_tokens
    return (
        f"[{info.engine} | prefill {stats.prefill_speed:.1f} tok/s ({new} of {stats.prompt_tokens} tokens new) | "
        f"first token {stats.time_to_first_token * 1000:.0f} ms | decode {stats.decode_speed:.1f} tok/s "
        f"({stats.generated_tokens} tokens, depth {stats.depth}) | {finished.reason.value}]"
    )
