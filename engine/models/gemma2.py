"""gemma2: Gemma 2.

Norms on both sides of every block (conversion has added 1 to their weights), a window in every second layer, and
tanh caps on attention's scores and on the logits. The 27B model scales queries by its width per head.
"""

from engine.models.family import Family

GEMMA2 = Family(
    "gemma2",
    rope_mode="neox",
    norms="both",
    activation="gelu",
    window_period=2,
    window=4096,
    soft_caps=(50.0, 30.0),
    scaled_embedding=True,
    wide_scale_layers=46,
)
