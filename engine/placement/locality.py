"""Which experts a model uses: a locality model, and what residency policies make of it.

Published hit rates (of 512 experts, 10 used per token): a static list of the 32 hottest of one text covers about
10 % of another's routing; the 64 last used cover 67 %, the 128 last used 81 %. Two numbers reproduce the three: within
a text the experts' weights are lognormal with spread SPREAD, and between two texts the logarithms correlate by
SHARED. Every token draws `used` different experts in proportion to the weights.

Hit rates follow in closed form: an expert's chance to be among a token's draws is 1 - exp(-c·weight), with c such
that the chances sum to `used`; least-recently-used slots are Che's approximation (H. Che et al., "Hierarchical Web
caching systems", 2002) with one characteristic time per slot count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

SPREAD = 2.05
SHARED = 0.12
# Share of the misses that are promoted, with hysteresis; see the locality test, where the policy itself runs.
PROMOTED_SHARE = 0.1
_STEPS = 60


@lru_cache(maxsize=64)
def use_chances(experts: int, used: int) -> tuple[float, ...]:
    """Chance of each expert to be used by a token of one text, hottest first. Sums to `used`."""
    quantiles = (np.arange(experts) + 0.5) / experts
    weights = np.exp(SPREAD * np.array([NormalDist().inv_cdf(q) for q in quantiles]))[::-1]
    return tuple(_scaled_chances(weights, used).tolist())


def chances_from_heat(heat: Sequence[float], used: int) -> tuple[float, ...]:
    """The same from recorded use counts of one layer; an expert never seen keeps a small chance."""
    counts = np.asarray(heat, np.float64) + 0.5
    weights = np.sort(counts)[::-1]
    return tuple(_scaled_chances(weights, used).tolist())


def chances_in_order(heat: Sequence[float], used: int) -> list[float]:
    """The same, by expert."""
    weights = np.asarray(heat, np.float64) + 0.5
    return [float(chance) for chance in _scaled_chances(weights, used)]


def _scaled_chances(weights: FloatArray, used: int) -> FloatArray:
    if used >= len(weights):
        return np.ones(len(weights))
    low, high = -60.0, 60.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if (1 - np.exp(-np.exp(middle) * weights)).sum() < used:
            low = middle
        else:
            high = middle
    chances: FloatArray = 1 - np.exp(-np.exp(low) * weights)
    return chances


@lru_cache(maxsize=256)
def recent_hit_rates(chances: tuple[float, ...]) -> FloatArray:
    """Hit rate of adaptive residency (recent use) for 0 … all slots, rising from 0 to 1."""
    p = np.asarray(chances)
    used = p.sum()
    decay = np.log1p(-np.minimum(p, 1 - 1e-12))
    times = np.exp(np.linspace(-6, 30, 400))[:, None]
    resident = 1 - np.exp(decay[None, :] * times)
    slots = resident.sum(axis=1)
    rates = (resident * p).sum(axis=1) / used
    curve = np.interp(np.arange(len(p) + 1), np.r_[0.0, slots, len(p)], np.r_[0.0, rates, 1.0])
    curve[-1] = 1.0
    curve = np.maximum.accumulate(curve)
    curve.flags.writeable = False
    return curve


def static_hit_rates(experts: int, used: int) -> FloatArray:
    """Hit rate of a fixed list of another text's hottest experts, for 0 … all slots.

    Of two lognormal weights with correlated logarithms, the second given the first is lognormal again, so a list's
    share interpolates between blind choice and the text's own list; evaluated on a fixed grid of quantiles.
    """
    normal = NormalDist()
    grid = np.array([normal.inv_cdf((i + 0.5) / 64) for i in range(64)])
    listed = np.array([normal.inv_cdf((i + 0.5) / experts) for i in range(experts)])[::-1]
    own = SHARED * listed[:, None] + np.sqrt(1 - SHARED**2) * grid[None, :]
    weights = np.exp(SPREAD * own)
    chances = _scaled_chances(weights.ravel(), used * 64).reshape(weights.shape).sum(axis=1) / 64
    rates: FloatArray = np.minimum(np.r_[0.0, np.cumsum(chances)] / used, 1.0)
    return rates


class RoutingGenerator:
    """Draws routings: one text after another of one layer. For tests and the simulator; seeded, so repeatable."""

    def __init__(self, experts: int, used: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._experts = experts
        self._used = used
        self._common = self._random.standard_normal(experts)

    def text(self, tokens: int) -> npt.NDArray[np.int64]:
        """Expert ids, [tokens, used], each row without repetition."""
        own = self._random.standard_normal(self._experts)
        # Two texts share the common part, so their logarithms correlate by SHARED.
        spread = SPREAD * (np.sqrt(SHARED) * self._common + np.sqrt(1 - SHARED) * own)
        noise = self._random.gumbel(size=(tokens, self._experts))
        return np.argpartition(-(spread + noise), self._used - 1, axis=1)[:, : self._used]


def static_hits(listed: Sequence[int], routing: npt.NDArray[np.int64]) -> float:
    """Share of a routing that a fixed list covers."""
    return float(np.isin(routing, np.asarray(listed)).mean())


def recent_hits(routing: npt.NDArray[np.int64], slots: int) -> float:
    """Share of a routing found in the `slots` least recently used replaced, counted after the slots have filled."""
    stamps: dict[int, int] = {}
    hits = seen = clock = 0
    for index, row in enumerate(routing.tolist()):
        for expert in row:
            clock += 1
            if expert in stamps:
                hits += index * 2 >= len(routing)
            elif len(stamps) >= slots:
                stamps.pop(min(stamps, key=stamps.__getitem__))
            stamps[expert] = clock
            seen += index * 2 >= len(routing)
    return hits / seen if seen else 0.0
