"""A file's description as text for the terminal."""

from __future__ import annotations

from typing import Any

from engine.gguf.describe import FileDescription, SpecSummary
from engine.gguf.errors import display_name, printable


def to_text(description: FileDescription) -> str:
    """The description for a terminal; every tensor has a line."""
    d = description
    lines = [
        f"{d.name}  ({display_name(d.path)})",
        f"  architecture  {d.architecture or '?'}, GGUF version {d.gguf_version}",
        f"  engine        {d.engine}" + (f": {d.engine_reason}" if d.engine_reason else ""),
        f"  quantisation  {d.quantization or '?'}, {d.parameters:,} parameters, {_size(d.file_bytes)}",
    ]
    if d.spec is not None:
        lines.append(f"  shape         {_spec_line(d.spec)}")
    if len(d.shards) > 1:
        lines += [f"  file          {row.file}, {_size(row.bytes)}, {row.tensors} tensors" for row in d.shards]
    lines += [f"  note          {note}" for note in d.notes]
    lines += ["", "types"]
    lines += [
        f"  {row.type:<10} {row.tensors:>5} tensors  {_size(row.bytes):>10}" + ("" if row.native else "  (not native)")
        for row in d.types
    ]
    lines += ["", "roles"]
    lines += [f"  {row.role:<16} {row.tensors:>5} tensors  {_size(row.bytes):>10}" for row in d.roles]
    lines += ["", "metadata"]
    lines += [f"  {row.key:<44} {row.type:<22} {_short(row.value)}" for row in d.metadata]
    lines += ["", "tensors"]
    lines += [
        f"  {row.name:<34} {row.type:<8} {' × '.join(map(str, row.shape)) or 'scalar':<22} {_size(row.bytes):>10}"
        for row in d.tensors
    ]
    return "\n".join(map(printable, lines))


def _spec_line(spec: SpecSummary) -> str:
    experts = f", {spec.experts_used} of {spec.experts} experts" if spec.experts else ""
    return (
        f"{spec.layers} layers of {spec.width}, {spec.heads} heads ({spec.kv_heads} for keys) of {spec.head_dim}, "
        f"feed-forward {spec.feed_forward}{experts}, {spec.vocabulary:,} tokens"
        f"{' (tied)' if spec.tied_output else ''}, context {spec.context_length:,}, rope {spec.rope}"
    )


def _size(count: int) -> str:
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def _short(value: Any, limit: int = 60) -> str:
    text = ", ".join(map(repr, value)) + ", …" if isinstance(value, list) and value else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
