"""RopeReader: how far a layer sees, and how positions enter it: rotation, its scaling, temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.errors import UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.models.family import Family
from engine.models.file_reader import FileReader
from engine.models.spec import RopeMode, RopeSpec, Temperature, YarnSpec

_MOST_WINDOW = 2**30  # as the kernels count positions
_ROPE_FACTORS = "rope_freqs.weight"
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


class RopeReader(FileReader):
    """`context`: how many tokens are wanted, where that is known; LongRoPE turns by it."""

    def __init__(self, family: Family, gguf: GGUFFile, context: int | None = None) -> None:
        super().__init__(family, gguf)
        self.wanted_context = context
        self.context_length = self.keys.integer("context_length", minimum=1)

    def _window(self, index: int) -> int:
        """How many positions a layer sees; 0: all. The pattern is a period, or a flag per layer."""
        if not self.family.window_period:
            return 0
        size = self._window_size()
        pattern = self.keys.integers("attention.sliding_window_pattern", self.blocks, self.family.window_period)
        if len(set(pattern)) == 1 and pattern[0] > 1:
            return size if (index + 1) % pattern[0] else 0
        return size if pattern[index] else 0

    def _window_size(self) -> int:
        key, chunk = "attention.sliding_window", self.family.chunk
        if not chunk:
            return min(self.keys.integer(key, self.family.window), _MOST_WINDOW)
        if self.keys.integer(key, chunk) != chunk:
            raise self._unbuilt(key, self.keys.integer(key))
        return -chunk

    def _rope_of(self, index: int, window: int, key_dim: int, factors: tuple[float, ...]) -> RopeSpec | None:
        period = self.family.unrotated_period
        if period and (index + 1) % period == 0:
            return None
        rope = self._rope(key_dim, factors)
        if not window:
            return rope
        base = self.keys.positive("rope.freq_base_swa", self.family.window_rope_base or rope.base)
        if not self.family.window_rope_scaled:
            rope = replace(rope, scale=1.0, yarn=None, attention_factor=1.0)
        return replace(rope, base=base)

    def _temperature(self, rope: RopeSpec | None, key_dim: int) -> Temperature:
        if self.family.temperature_key and (scale := self.keys.number("attention.temperature_scale", 0.0)):
            length = self.keys.integer("rope.scaling.original_context_length", minimum=1)
            if rope is None or rope.dimensions != key_dim:
                raise self._unbuilt("attention.temperature_scale", scale)
            return Temperature(length, scale)
        return self.family.temperature if self.family.temperature and rope is None else Temperature()

    def _rope(self, key_dim: int, factors: tuple[float, ...]) -> RopeSpec:
        keys = self.keys
        dimensions = keys.integer("rope.dimension_count", key_dim)
        if dimensions % 2 or not 0 < dimensions <= key_dim:
            raise self._broken(f"rope.dimension_count is {dimensions}, but a head has {key_dim} values")
        if factors and len(factors) != dimensions // 2:
            raise self._broken(f"the tensor of rotary factors has {len(factors)} values for {dimensions // 2} pairs")
        scaling = keys.text("rope.scaling.type", "linear")
        if scaling not in ("none", "linear", "yarn") and not (scaling == "longrope" and factors):
            raise UnsupportedError(
                f"{self.gguf.path.name}: rope.scaling.type is “{scaling}”, which is not supported.",
                remedy="It may run on the compatibility engine.",
            )
        factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 0.0)) or 1.0
        rope = RopeSpec(
            mode=self._rope_mode(),
            dimensions=dimensions,
            base=keys.positive("rope.freq_base", 10000.0),
            scale=1.0 if scaling == "none" else 1.0 / factor,
            attention_factor=keys.positive("rope.scaling.attn_factor", 1.0),
            yarn=self._yarn() if scaling == "yarn" else None,
            factors=factors,
        )
        with np.errstate(all="ignore"):
            if not np.isfinite(rope.frequencies()).all():
                raise self._broken(f"rope.freq_base {rope.base:g} and factor {factor:g} give frequencies without end")
        return rope

    def _rope_mode(self) -> RopeMode:
        """Where images have positions in several parts, heads turn by halves; of a text, all parts are the same."""
        sections = self.keys.integers("rope.dimension_sections", 4, 0)
        if sections[3]:  # whose position is always 0
            raise self._unbuilt("rope.dimension_sections", list(sections))
        return "neox" if sections[0] and sections[1] else self.family.rope_mode

    def _yarn(self) -> YarnSpec:
        keys = self.keys
        return YarnSpec(
            original_context=keys.integer("rope.scaling.original_context_length", self.context_length, minimum=1),
            beta_fast=keys.positive("rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=keys.positive("rope.scaling.yarn_beta_slow", 1.0),
            extrapolation=keys.number("rope.scaling.yarn_ext_factor", 1.0),
            log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", 0.0),
        )

    def _rope_factors(self) -> tuple[float, ...]:
        """Wavelength factors: llama3's, or LongRoPE's; the tensors are consumed here and never reach the graph.

        LongRoPE has two sets: one for contexts up to the original length, and one for longer ones, which has to be
        wanted: short texts are worse for it.
        """
        long, short = self._factors(_LONG), self._factors(_SHORT)
        if not long or not short:
            return long or short or self._factors(_ROPE_FACTORS)
        original = self.keys.integer("rope.scaling.original_context_length", minimum=1)
        if (self.wanted_context or 0) > original:
            return long
        if original < self.context_length:
            self.warnings.append(
                f"The context ends at {original} tokens, as the model turns its heads otherwise for longer ones: "
                f"choose up to {self.context_length} where you need them."
            )
            self.context_length = original
        return short

    def _factors(self, name: str) -> tuple[float, ...]:
        tensor = self.tensors.pop(name, None)
        if tensor is None:
            return ()
        if tensor.type_id != QuantType.F32:
            raise UnsupportedError(f"{self.gguf.path.name}: “{name}” is not of type F32.")
        values = np.frombuffer(self.gguf.buffer(name), dtype="<f4")
        if not np.all(np.isfinite(values)) or not np.all(values > 0):
            raise self._broken(f"“{name}” holds a value that is not above zero")
        return tuple(float(value) for value in values)
