"""float32 to raw GGUF blocks of the codebook types: the nearest entry for scales set by each sub-block's extreme.

Codebooks are those of the `gguf` package, layouts those of kernels/cpu/quant_type.h.
"""

from __future__ import annotations

import functools
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]


def half(values: Floats) -> Bytes:
    return values.astype(np.float16).reshape(-1, 1).view(np.uint8)


def ratio(values: Floats, scale: Floats) -> Floats:
    out = np.zeros(np.broadcast_shapes(values.shape, scale.shape), np.float32)
    return np.divide(values, scale, out=out, where=scale != 0)


def _extreme(x: Floats) -> Floats:
    """The value of largest magnitude along the last axis, which stays."""
    return np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)


def _nearest(values: Floats, book: Floats) -> Ints:
    order = np.argsort(book)
    middles = (book[order][1:] + book[order][:-1]) / 2
    return order[np.searchsorted(middles, values)].astype(np.int32)


def _nibbles(q: Ints) -> Bytes:
    """[..., 32] to [..., 16]: byte i holds values i and i + 16."""
    return (q[..., :16] | q[..., 16:] << 4).astype(np.uint8)


_IQ4 = np.array(gguf.quants.IQ4_NL.kvalues, np.float32)


def iq4_nl(x: Floats) -> Bytes:
    """[blocks, 32] to [blocks, 18]."""
    d = half(_extreme(x) / _IQ4[0])
    return np.hstack([d, _nibbles(_nearest(ratio(x, d.view(np.float16).astype(np.float32)), _IQ4))])


def iq4_xs(x: Floats) -> Bytes:
    """[blocks, 256] to [blocks, 136]."""
    x = x.reshape(-1, 8, 32)
    scale = _extreme(x) / _IQ4[0]
    d = half(np.abs(scale).max(1) / -32)
    super_scale = d.view(np.float16).astype(np.float32)[..., None]
    scales = np.clip(np.rint(ratio(scale, super_scale)), -32, 31).astype(np.int32)
    q = _nibbles(_nearest(ratio(x, super_scale * scales), _IQ4))
    six = scales[..., 0] + 32
    low = (six[:, ::2] & 15) | (six[:, 1::2] & 15) << 4
    high = ((six >> 4) << 2 * np.arange(8)).sum(-1).astype(np.uint16).reshape(-1, 1).view(np.uint8)
    return np.hstack([d, high, low.astype(np.uint8), q.reshape(-1, 128)])


# --- grids ------------------------------------------------------------------------------------------------------


def _odd_scales(x: Floats, size: int, top: float, most: int, unit: float) -> tuple[Bytes, Ints, Floats]:
    """d as halves, s [blocks, 256 / size] and x in grid units [blocks, 256 / size, size] for w = d unit (2 s + 1) q.

    `top`: the grid's largest value; `most`: the largest s.
    """
    x = x.reshape(-1, 256 // size, size)
    wanted = np.abs(x).max(-1) / np.float32(top * unit)
    d = half(wanted.max(-1, keepdims=True) / (2 * most + 1))
    super_scale = d.view(np.float16).astype(np.float32)
    s = np.clip(np.rint((ratio(wanted, super_scale) - 1) / 2), 0, most).astype(np.int32)
    return d, s, ratio(x, (super_scale * np.float32(unit) * (2 * s + 1))[..., None])


@functools.cache
def _grid(kind: Any) -> Floats:
    kind.init_grid()
    return np.asarray(kind.grid, np.float32).reshape(kind.grid_shape)


def _places(values: Floats, grid: Floats) -> Ints:
    """[..., n] to the places [...] of the nearest entries."""
    flat = values.reshape(-1, grid.shape[1])
    lengths = (grid * grid).sum(-1) / 2
    parts = [(lengths - part @ grid.T).argmin(-1) for part in np.array_split(flat, max(1, len(flat) // 4096))]
    return np.concatenate(parts).astype(np.int32).reshape(values.shape[:-1])


def _signs(groups: Floats) -> Ints:
    """[..., 8] to bits of the negative values."""
    return ((groups < 0) << np.arange(8)).sum(-1).astype(np.int32)


def _words(values: Any, kind: str) -> Bytes:
    """[blocks, n] integers to bytes, little-endian."""
    return np.ascontiguousarray(values).astype(kind).view(np.uint8).reshape(len(values), -1)


def _pairs(s: Ints) -> Bytes:
    return (s[:, ::2] | s[:, 1::2] << 4).astype(np.uint8)


def _seven_signs_and_scale(signs: Ints, s: Ints) -> Any:
    """Per 32 values: four times seven signs (the eighth follows), and a scale in the top bits."""
    seven = (signs.reshape(-1, 8, 4) & 127).astype(np.uint32)
    return (seven << np.array([0, 7, 14, 21], np.uint32)).sum(-1).astype(np.uint32) | s.astype(np.uint32) << 28


def iq2_xxs(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 32, 43, 15, 0.125)
    groups = units.reshape(-1, 32, 8)
    places = _places(np.abs(groups), _grid(gguf.quants.IQ2_XXS)).reshape(-1, 8, 4)
    low = (places.astype(np.uint32) << np.array([0, 8, 16, 24], np.uint32)).sum(-1)
    both = np.stack([low, _seven_signs_and_scale(_signs(groups), s)], -1)
    return np.hstack([d, _words(both.reshape(len(d), -1), "<u4")])


def iq2_xs(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 16, 43, 15, 0.125)
    groups = units.reshape(-1, 32, 8)
    words = _places(np.abs(groups), _grid(gguf.quants.IQ2_XS)) | (_signs(groups) & 127) << 9
    return np.hstack([d, _words(words, "<u2"), _pairs(s)])


def iq2_s(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 16, 43, 15, 0.125)
    groups = units.reshape(-1, 32, 8)
    places = _places(np.abs(groups), _grid(gguf.quants.IQ2_S))
    high = ((places >> 8).reshape(-1, 8, 4) << np.array([0, 2, 4, 6])).sum(-1)
    return np.hstack([d, _words(places & 255, "u1"), _words(_signs(groups), "u1"), _words(high, "u1"), _pairs(s)])


def iq3_xxs(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 32, 62, 15, 0.25)
    places = _places(np.abs(units).reshape(-1, 64, 4), _grid(gguf.quants.IQ3_XXS))
    factors = _seven_signs_and_scale(_signs(units.reshape(-1, 32, 8)), s)
    return np.hstack([d, _words(places, "u1"), _words(factors, "<u4")])


def iq3_s(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 32, 15, 15, 1.0)
    places = _places(np.abs(units).reshape(-1, 64, 4), _grid(gguf.quants.IQ3_S))
    high = ((places >> 8).reshape(-1, 8, 8) << np.arange(8)).sum(-1)
    signs = _signs(units.reshape(-1, 32, 8))
    return np.hstack([d, _words(places & 255, "u1"), _words(high, "u1"), _words(signs, "u1"), _pairs(s)])


def _thin(groups: Floats, shift: Floats) -> Ints:
    """Places of values in units of an eighth, for 8 q + shift."""
    return _places((groups - shift) / 8, _grid(gguf.quants.IQ1_S))


def iq1_s(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 32, 9, 7, 0.125)
    less = units.mean(-1) < 0
    places = _thin(units.reshape(-1, 8, 4, 8), np.where(less, -1.0, 1.0).astype(np.float32)[..., None, None])
    heads = ((places >> 8) << np.array([0, 3, 6, 9])).sum(-1) | s << 12 | less.astype(np.int32) << 15
    return np.hstack([d, _words(places.reshape(len(d), -1) & 255, "u1"), _words(heads, "<u2")])


def iq1_m(x: Floats) -> Bytes:
    d, s, units = _odd_scales(x, 16, 9, 7, 0.125)
    groups = units.reshape(-1, 32, 8)
    less = groups.mean(-1) < 0
    places = _thin(groups, np.where(less, -1.0, 1.0).astype(np.float32)[..., None])
    high = places >> 8 | less.astype(np.int32) << 3
    scales = (s.reshape(-1, 4, 4) << np.array([0, 3, 6, 9])).sum(-1)
    scales |= (d.view(np.uint16).astype(np.int32) >> np.array([0, 4, 8, 12]) & 15) << 12
    return np.hstack([_words(places & 255, "u1"), _pairs(high), _words(scales, "<u2")])


QUANTISERS = {
    "IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs, "IQ3_S": iq3_s, "IQ3_XXS": iq3_xxs, "IQ2_S": iq2_s, "IQ2_XS": iq2_xs,
    "IQ2_XXS": iq2_xxs, "IQ1_S": iq1_s, "IQ1_M": iq1_m,
}  # fmt: skip
