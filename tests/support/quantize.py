"""float32 to raw GGUF blocks, for every weight type the kernels read.

Plain rounding to the format's grid (no search for the best scale): the tests need valid blocks with all fields in
use, not the smallest error. The simple types go through the `gguf` package, the K types are written here from the
block layouts in kernels/cpu/quant_type.h, the codebook types in quantize_codebook.py. `dequantize` is the published
one of the `gguf` package.
"""

from __future__ import annotations

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.quantize_codebook import QUANTISERS, half, ratio

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

TYPES = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "IQ4_NL", "IQ4_XS", "MXFP4", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0",
)  # fmt: skip
FLOAT_TYPES = ("F32", "F16", "BF16")
CODEBOOK_TYPES = TYPES[13:]  # weights d * q without an offset
# Byte ranges of a block that hold quants; zeroing them leaves the offset that each weight is d * q away from.
QUANT_BYTES = {
    "Q4_0": [(2, 18)], "Q4_1": [(4, 20)], "Q5_0": [(2, 22)], "Q5_1": [(4, 24)], "Q8_0": [(2, 34)],
    "Q2_K": [(16, 80)], "Q3_K": [(0, 96)], "Q4_K": [(16, 144)], "Q5_K": [(16, 176)], "Q6_K": [(0, 192)],
    "IQ4_NL": [(2, 18)], "IQ4_XS": [(8, 136)], "MXFP4": [(1, 17)], "IQ3_S": [(2, 106)], "IQ3_XXS": [(2, 98)],
    "IQ2_S": [(2, 74)], "IQ2_XS": [(2, 66)], "IQ2_XXS": [(2, 66)], "IQ1_S": [(2, 50)], "IQ1_M": [(0, 48)],
    "TQ1_0": [(0, 52)], "TQ2_0": [(0, 64)],
}  # fmt: skip


def magnitude(raw: Bytes, name: str) -> NDArray[np.float64]:
    """[rows, cols]: |d * q| + |offset| or more, for weights d * q + offset: what roundings are relative to."""
    weights = np.abs(dequantize(raw, name).astype(np.float64))
    if name in FLOAT_TYPES or name in CODEBOOK_TYPES:
        return weights
    offsets = raw.reshape(-1, row_bytes(name, block_elements(name))).copy()
    for begin, end in QUANT_BYTES[name]:
        offsets[:, begin:end] = 0
    return weights + 2 * np.abs(dequantize(offsets.reshape(raw.shape), name).astype(np.float64))


def type_id(name: str) -> int:
    return int(gguf.GGMLQuantizationType[name].value)


def block_elements(name: str) -> int:
    return int(gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0])


def row_bytes(name: str, cols: int) -> int:
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    assert cols % elements == 0
    return int(cols // elements * size)


def quantize(values: Floats, name: str) -> Bytes:
    """[rows, cols] float32 to [rows, row_bytes] raw blocks of type `name`."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    quantiser = _K_QUANTISERS.get(name) or QUANTISERS.get(name)
    if quantiser:
        rows = values.shape[0]
        return quantiser(values.reshape(-1, block_elements(name))).reshape(rows, -1)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[name])
    return np.ascontiguousarray(raw).view(np.uint8).reshape(values.shape[0], -1)


def dequantize(raw: Bytes, name: str) -> Floats:
    """[rows, row_bytes] raw blocks to [rows, cols] float32."""
    kind = gguf.GGMLQuantizationType[name]
    data = raw if name != "F32" and name != "F16" else raw.view(np.float32 if name == "F32" else np.float16)
    return np.asarray(gguf.quants.dequantize(data, kind), dtype=np.float32)


def random_blocks(name: str, rows: int, cols: int, rng: np.random.Generator) -> Bytes:
    """Quantised Gaussian noise whose blocks differ in scale and offset."""
    block = max(block_elements(name), 32)
    spread = rng.uniform(0.01, 0.1, (rows, -(-cols // block), 1)).astype(np.float32)
    offset = rng.normal(0, 0.02, spread.shape).astype(np.float32)
    noise = rng.standard_normal((rows, spread.shape[1], block), dtype=np.float32)
    return quantize((noise * spread + offset).reshape(rows, -1)[:, :cols], name)


def _rounded(values: Floats, low: int, high: int) -> NDArray[np.int32]:
    return np.clip(np.rint(values), low, high).astype(np.int32)


def _signed(
    values: Floats, size: int, q_max: int, scale_max: int
) -> tuple[Bytes, NDArray[np.int32], NDArray[np.int32]]:
    """w = d * scale[j] * q: super-scale d (as half), scales [n, 256 / size] and q [n, 256], signed."""
    x = values.reshape(-1, 256 // size, size)
    extreme = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]
    scale = -extreme / q_max
    d = half(np.abs(scale).max(-1, keepdims=True) / -scale_max)
    super_scale = d.view(np.float16).astype(np.float32)
    scales = _rounded(ratio(scale, super_scale), -scale_max, scale_max - 1)
    step = (super_scale * scales)[..., None]
    q = _rounded(ratio(x, step), -q_max, q_max - 1)
    return d, scales, q.reshape(-1, 256)


def _offset(
    values: Floats, size: int, q_max: int, scale_max: int
) -> tuple[Bytes, Bytes, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """w = d * scale[j] * q - dmin * min[j]: d, dmin (as halves), scales, mins [n, 256 / size], q [n, 256], unsigned."""
    x = values.reshape(-1, 256 // size, size)
    low = np.minimum(x.min(-1), 0)
    scale = (x.max(-1) - low) / q_max
    d, dmin = half(scale.max(-1, keepdims=True) / scale_max), half((-low).max(-1, keepdims=True) / scale_max)
    super_scale, super_min = d.view(np.float16).astype(np.float32), dmin.view(np.float16).astype(np.float32)
    scales = _rounded(ratio(scale, super_scale), 0, scale_max)
    mins = _rounded(ratio(-low, super_min), 0, scale_max)
    q = _rounded(ratio(x + (super_min * mins)[..., None], (super_scale * scales)[..., None]), 0, q_max)
    return d, dmin, scales, mins, q.reshape(-1, 256)


def _planes(q: NDArray[np.int32], bits: int, span: int) -> Bytes:
    """Packs `bits`-wide values so that byte i of a span holds values i, i + w, i + 2w … (w = span * bits / 8)."""
    per_byte = 8 // bits
    parts = q.reshape(q.shape[0], -1, per_byte, span // per_byte)
    shifts = (bits * np.arange(per_byte)).reshape(1, 1, -1, 1)
    return (parts << shifts).sum(2).reshape(q.shape[0], -1).astype(np.uint8)


def _scales_and_mins(scales: NDArray[np.int32], mins: NDArray[np.int32]) -> Bytes:
    low = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    middle = mins[:, :4] | (mins[:, 4:] >> 4) << 6
    return np.hstack([low, middle, (scales[:, 4:] & 15) | (mins[:, 4:] & 15) << 4]).astype(np.uint8)


def _q2_k(x: Floats) -> Bytes:
    d, dmin, scales, mins, q = _offset(x, 16, 3, 15)
    return np.hstack([(scales | mins << 4).astype(np.uint8), _planes(q, 2, 128), d, dmin])


def _q3_k(x: Floats) -> Bytes:
    d, scales, q = _signed(x, 16, 4, 32)
    q, scales = q + 4, scales + 32
    low = (scales[:, :8] & 15) | (scales[:, 8:] & 15) << 4
    high = _planes(scales >> 4, 2, 16)
    return np.hstack([_planes(q >> 2, 1, 256), _planes(q & 3, 2, 128), low.astype(np.uint8), high, d])


def _q4_k(x: Floats) -> Bytes:
    d, dmin, scales, mins, q = _offset(x, 32, 15, 63)
    return np.hstack([d, dmin, _scales_and_mins(scales, mins), _planes(q, 4, 64)])


def _q5_k(x: Floats) -> Bytes:
    d, dmin, scales, mins, q = _offset(x, 32, 31, 63)
    return np.hstack([d, dmin, _scales_and_mins(scales, mins), _planes(q >> 4, 1, 256), _planes(q & 15, 4, 64)])


def _q6_k(x: Floats) -> Bytes:
    d, scales, q = _signed(x, 16, 32, 128)
    q = q + 32
    return np.hstack([_planes(q & 15, 4, 128), _planes(q >> 4, 2, 128), scales.astype(np.int8).view(np.uint8), d])


_K_QUANTISERS = {"Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k}
