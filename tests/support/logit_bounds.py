"""How far two correct engines may be apart, derived from the rounding of what each does.

Both multiply the same weights. They differ in how activations are rounded before each product:

- Quantised weights: a block of activations becomes int8 with the block's largest value as 127. Of values that are
  near normal, a block of 32 to 256 has its largest at 2 to 3 standard deviations, so a step is 3/127 of one and a
  value's rounding error, uniform over a step, 3/127/√12 = 0.0068 of it.
- A float of p significant bits is off by at most 2^-p of its power of two, uniformly: relative to a value spread over
  1 to 2, 2^-p √(1/3) √(1/2). llama.cpp rounds activations to F16 (p = 11) before F16 weights, to BF16 (p = 8) before
  BF16 weights; and in attention it rounds queries and probabilities to F16, where we do not, beside keys and values,
  which both keep in F16. That last error is there with F32 weights, too.

A product of one rounded vector with weights has the same relative error, ε. The residual stream is a sum of
2 × layers + 1 parts; a part carries the error of four products at most (attention: qkv, output; feed-forward: gate and
up, down), and of the parts before it. With independent errors in both engines, the last normalised vector differs by
at most ε √(2 · (4 · layers + 1)) of its size, and logits of standard deviation σ by

    Δrms = ε σ √(2 (4 layers + 1))

The largest of n normal deviations is below √(2 ln n) + 1 of them; where a position attends sharply, its scores and
with them its errors are up to twice the mean position's. KL of two softmaxes whose logits differ by small
independent δ is half the variance of δ under p: mean KL = Δrms²/2. One bad position in a thousand may have six times
the mean's root: max KL = 18 Δrms² (χ² with few degrees where p is concentrated on few tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_ROUNDING = {"F32": 2**-11 / 6**0.5, "F16": 2**-11 / 6**0.5, "BF16": 2**-8 / 6**0.5}
_INT8_ROUNDING = 3 / 127 / 12**0.5


@dataclass(frozen=True, slots=True)
class Bounds:
    """On the root mean square and the largest of |Δ logit|, and on KL in nats."""

    rms: float
    largest: float
    mean_kl: float
    largest_kl: float

    def allow(self, wrong: npt.NDArray[np.float32]) -> bool:
        """Whether these differences are within those of logits."""
        return bool(np.sqrt(np.mean(wrong**2)) <= self.rms and np.abs(wrong).max() <= self.largest)


def rounding(mix: str) -> float:
    """ε: the relative error that rounding its input gives a product with weights quantised as `mix`."""
    return _ROUNDING.get(mix, _INT8_ROUNDING)


def bounds(reference: npt.NDArray[np.float32], mix: str, layers: int) -> Bounds:
    """For `reference` logits [positions, vocabulary] of a model quantised as `mix`."""
    rms = rounding(mix) * float(reference.std()) * math.sqrt(2 * (4 * layers + 1))
    return Bounds(rms, 2 * rms * (math.sqrt(2 * math.log(reference.size)) + 1), rms**2 / 2, 18 * rms**2)
