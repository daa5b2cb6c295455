"""From metadata to a graph: ModelSpec, one data file per architecture family, graph building."""

from engine.models.build import build_graph
from engine.models.registry import load_spec, native_architectures
from engine.models.spec import ModelSpec

__all__ = ["ModelSpec", "build_graph", "load_spec", "native_architectures"]
