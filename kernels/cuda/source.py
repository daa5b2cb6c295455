"""The kernels' source text: which units there are, and the signature of every kernel in them.

A unit is what is compiled in one go: one .cu file, or a file of TYPED_FILES for one type. The KERNEL macros in the
files are the only declarations; names and parameters are read from there.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
# GGUF type id: the name that ends the kernels of this type.
WEIGHT_TYPES = {
    0: "f32", 1: "f16", 30: "bf16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0",
    10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k",
    20: "iq4_nl", 23: "iq4_xs", 39: "mxfp4", 21: "iq3_s", 18: "iq3_xxs", 22: "iq2_s", 17: "iq2_xs", 16: "iq2_xxs",
    19: "iq1_s", 29: "iq1_m", 34: "tq1_0", 35: "tq2_0",
}  # fmt: skip
FLOAT_TYPES = (0, 1, 30)
CACHE_TYPES = {0: "f32", 1: "f16", 8: "q8_0"}
TYPED_FILES = {
    **dict.fromkeys(("matvec.cu", "matmul.cu"), tuple(WEIGHT_TYPES.values())),
    **dict.fromkeys(("attention.cu", "prefill.cu"), tuple(CACHE_TYPES.values())),
}

Argument = int | float  # addresses are ints
CType = type[ctypes.c_int | ctypes.c_uint | ctypes.c_float | ctypes.c_void_p]

_KERNEL = re.compile(r"^(TYPED_)?KERNEL\((\w+),\s*(\d+),\s*\((.*?)\)\)\s*\{", re.S | re.M)
_SCALARS: dict[str, CType] = {"int": ctypes.c_int, "unsigned": ctypes.c_uint, "float": ctypes.c_float}


@dataclass(frozen=True)
class Unit:
    name: str
    file: str
    type: str | None = None  # that a file of TYPED_FILES is compiled for

    @property
    def text(self) -> str:
        return _read(self.file)


@dataclass(frozen=True)
class Signature:
    """One kernel: its unit, the most threads a block may have, and its parameters in order."""

    name: str
    unit: Unit
    max_threads: int
    names: tuple[str, ...]
    types: tuple[CType, ...]

    def pack(self, args: Sequence[Argument]) -> tuple[ctypes.Array[ctypes.c_void_p], list[object]]:
        """The void*[] that cuLaunchKernel takes, and what must stay alive until the launch has returned."""
        if len(args) != len(self.types):
            raise TypeError(f"{self.name} takes {', '.join(self.names)}; got {len(args)} arguments")
        values = [kind(value) for kind, value in zip(self.types, args, strict=True)]  # type: ignore[arg-type]
        return (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values)), [*values]


@functools.cache
def _read(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")


@functools.cache
def headers() -> dict[str, str]:
    return {path.name: _read(path.name) for path in sorted(FOLDER.glob("*.cuh"))}


@functools.cache
def units() -> dict[str, Unit]:
    files = sorted(path.name for path in FOLDER.glob("*.cu"))
    plain = [Unit(file.removesuffix(".cu"), file) for file in files if file not in TYPED_FILES]
    typed = [Unit(f"{Path(file).stem}_{type}", file, type) for file, types in TYPED_FILES.items() for type in types]
    return {unit.name: unit for unit in plain + typed}


@functools.cache
def signatures() -> dict[str, Signature]:
    """Every kernel of every unit, by its name."""
    found = {}
    for unit in units().values():
        for typed, name, max_threads, declared in _KERNEL.findall(unit.text):
            parameters = [parameter.strip() for parameter in declared.split(",")]
            full_name = f"{name}_{unit.type}" if typed else name
            found[full_name] = Signature(
                full_name,
                unit,
                int(max_threads),
                tuple(re.split(r"[\s*]+", parameter)[-1] for parameter in parameters),
                tuple(_type_of(parameter) for parameter in parameters),
            )
    return found


def _type_of(parameter: str) -> CType:
    return ctypes.c_void_p if "*" in parameter else _SCALARS[parameter.rsplit(maxsplit=1)[0]]


def digest(unit: Unit, *more: str) -> str:
    """Of everything that a compiled unit depends on, together with `more`."""
    text = "\0".join([unit.name, unit.text, *headers().values(), *more])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@functools.cache
def digest_of_all() -> str:
    """Of every source file."""
    texts = [_read(path.name) for path in sorted([*FOLDER.glob("*.cu"), *FOLDER.glob("*.cuh")])]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]
