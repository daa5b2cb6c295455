"""GGUF files: reading them safely, and what their parts are called."""

from engine.gguf.errors import FileChangedError, IncompleteSplitError, TruncatedFileError
from engine.gguf.metadata import REQUIRED, Metadata, StringArray
from engine.gguf.quant_types import QuantType
from engine.gguf.reader import GGUFFile
from engine.gguf.tensors import TensorInfo

__all__ = [
    "REQUIRED",
    "FileChangedError",
    "GGUFFile",
    "IncompleteSplitError",
    "Metadata",
    "QuantType",
    "StringArray",
    "TensorInfo",
    "TruncatedFileError",
]
