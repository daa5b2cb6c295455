"""hunyuan-moe: Hunyuan A13B. q and k rotate before they are normalised; a shared expert stands beside the others."""

from engine.models.family import Family

HUNYUAN_MOE = Family("hunyuan-moe", rope_mode="neox", qk_norm="head", norm_after_rope=True, experts=True)
