"""float32 to raw GGUF blocks of the codebook types: the nearest entry for scales set by each sub-block's extreme.

Codebooks are those of the `gguf` package, layouts those of kernels/cpu/quant_type.h.
"""

from __future__ import annotations

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


QUANTISERS = {"IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs}
