"""A file's description as text for the terminal."""

from __future__ import annotations

from engine.gguf.describe import FileDescription, MetadataRow, SpecSummary
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
        lines += [f"  file          {row.file}, {_size(row.bytes)}, {_tensors(row.tensors)}" for row in d.shards]
    lines += [f"  note          {note}" for note in d.notes]
    lines += ["", "types"]
    lines += [
        f"  {row.type:<10} {_tensors(row.tensors, 5):<13}  {_size(row.bytes):>10}"
        + ("" if row.native else "  (not native)")
        for row in d.types
    ]
    lines += ["", "roles"]
    lines += [f"  {row.role:<16} {_tensors(row.tensors, 5):<13}  {_size(row.bytes):>10}" for row in d.roles]
    lines += ["", "metadata"]
    lines += [f"  {row.key:<44} {row.type:<22} {_short(row)}" for row in d.metadata]
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


def _tensors(count: int, width: int = 0) -> str:
    return f"{count:>{width}} tensor{'' if count == 1 else 's'}"


def _short(row: MetadataRow, limit: int = 60) -> str:
    value = row.value
    text = repr(value)
    if isinstance(value, list) and value:
        text = ", ".join(map(repr, value)) + (", …" if row.count > len(value) else "")
    return text if len(text) <= limit else text[: limit - 1] + "…"
