"""Files of published shapes at their full size, of which the header alone is there: the rest is a hole."""

from __future__ import annotations

import json
from pathlib import Path

from engine.gguf import QuantType
from engine.placement.shape import ModelShape
from tests.support.gguf_writer import GGUFBuilder
from tests.support.shapes import SHAPES

_ALIGNMENT = 32


def sparse_model(stem: str, folder: Path) -> Path:
    """The model of tests/bench/shapes/<stem>.json as a GGUF file, without a vocabulary; it takes a few KiB on disk."""
    source = SHAPES / f"{stem}.json"
    shape = ModelShape.from_shape_file(source)
    builder = GGUFBuilder(None)
    builder.add_all(json.loads(source.read_text("utf-8"))["metadata"])
    end = 0
    for tensor in (*shape.outer, *(tensor for layer in shape.layers for tensor in layer.tensors)):
        builder.tensor_raw(tensor.name, tensor.shape, QuantType[tensor.type_name], offset=end)
        end += -(-tensor.bytes // _ALIGNMENT) * _ALIGNMENT
    header = builder.header()
    path = folder / f"{stem}.gguf"
    with path.open("wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // _ALIGNMENT) * _ALIGNMENT + end)
    return path
