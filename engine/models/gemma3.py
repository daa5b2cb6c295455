"""gemma3: Gemma 3, text.

As gemma2, with norms of q and k in place of the caps; five of six layers see a window and rotate with a base of their
own, without the others' scaling. The 27B model scales queries by its width per head.
"""

from engine.models.family import Family

GEMMA3 = Family(
    "gemma3",
    rope_mode="neox",
    qk_norm="head",
    norms="both",
    activation="gelu",
    window_period=6,
    window_rope_base=10000.0,
    window_rope_scaled=False,
    scaled_embedding=True,
    wide_scale_layers=62,
)
