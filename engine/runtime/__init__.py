"""Graphs made runnable: lowering to programs, and their execution on batches."""

from engine.runtime.executor import Executor, Interrupted, StepBatch
from engine.runtime.lowering import CpuProgram, Segment, capture, split_by_device

__all__ = ["CpuProgram", "Executor", "Interrupted", "Segment", "StepBatch", "capture", "split_by_device"]
