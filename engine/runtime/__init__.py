"""Graphs made runnable: lowering to programs, and their execution on batches."""

from engine.runtime.executor import Chunk, Executor, Interrupted
from engine.runtime.lowering import CpuProgram, Segment, capture, split_by_device

__all__ = ["Chunk", "CpuProgram", "Executor", "Interrupted", "Segment", "capture", "split_by_device"]
