"""olmoe: OLMoE. q and k are normalised over all heads, experts' weights are not."""

from engine.models.family import Family

OLMOE = Family("olmoe", rope_mode="neox", qk_norm="row", experts=True, normalise_experts=False)
