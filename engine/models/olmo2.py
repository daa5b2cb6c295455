"""olmo2: OLMo 2 and 3. Norms stand behind blocks only; q and k are normalised over all heads. OLMo 3 has
windows, and their layers do not scale positions."""

from engine.models.family import Family

OLMO2 = Family(
    "olmo2",
    rope_mode="neox",
    qk_norm="row",
    norms="after",
    window_period=4,
    window=0,
    window_rope_scaled=False,
)
