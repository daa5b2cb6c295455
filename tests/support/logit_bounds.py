"""How far two correct engines may be apart, derived from the rounding of what each does.

Both multiply the same weights. They differ in how activations are rounded before each product:

- Quantised weights: a block of activations becomes int8 with the block's largest value as 127. Of values that are
  near normal, a block of 32 to 256 has its largest at 2 to 3 standard deviations, so a step is 3/127 of one and a
  value's rounding error, uniform over a step, 3/127/√12 = 0.0068 of it.
- BF16 weights: llama.cpp rounds activations to 8 bits of mantissa, 2^-9/√3; F16: to 11 bits, 2^-12/√3.
- F32 weights: only keys and values are rounded, to F16, in both engines alike; what is left is the order of sums,
  about 2^-24 per term and √cols terms, and single keys that fall to the other side of a rounding: 2^-12/√3 again.

A product of one rounded vector with weights has the same relative error, ε. The residual stream is a sum of
2 × layers + 1 parts; a part carries the error of four products at most (attention: qkv, output; feed-forward: gate and
up, down), and of the parts before it. With independent errors in both engines, the last normalised vector differs by
at most ε √(2 · (4 · layers + 1)) of its size, and logits of standard deviation σ by

    Δrms = ε σ √(2 (4 layers + 1))

The largest of n normal deviations is below √(2 ln n) + 1 of them. KL of two softmaxes whose logits differ by small
independent δ is half the variance of δ under p: mean KL = Δrms²/2. One bad position in a thousand may have six times
the mean's root: max KL = 18 Δrms² (χ² with few degrees where p is concentrated on few tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_ROUNDING = {"F32": 2**-12 / 3**0.5, "F16": 2**-12 / 3**0.5, "BF16": 2**-9 / 3**0.5}
_INT8_ROUNDING = 3 / 127 / 12**0.5


@dataclass(frozen=True, slots=True)
class Bounds:
    """On the root mean square and the largest of |Δ logit|, and on KL in nats."""

    rms: float
    largest: float
    mean_kl: float
    largest_kl: float


def rounding(mix: str) -> float:
    """ε: the relative error that rounding its input gives a product with weights quantised as `mix`."""
    return _ROUNDING.get(mix, _INT8_ROUNDING)


def bounds(reference: npt.NDArray[np.float32], mix: str, layers: int) -> Bounds:
    """For `reference` logits [positions, vocabulary] of a model quantised as `mix`."""
    rms = rounding(mix) * float(reference.std()) * math.sqrt(2 * (4 * layers + 1))
    return Bounds(rms, rms * (math.sqrt(2 * math.log(reference.size)) + 1), rms**2 / 2, 18 * rms**2)
