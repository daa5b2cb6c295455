"""deepseek2: DeepSeek V2, V2-Lite, V3 and R1, Kimi K2, GLM 4.7 Flash.

Latent attention; the first layers are dense, the others have experts and a shared one. V2's router is softmax, not
renormalised; V3's a sigmoid with a selection bias, chosen from the best groups: the file's keys say which, and files
without them are V2's.
"""

from engine.models.family import Family

DEEPSEEK2 = Family(
    "deepseek2",
    rope_mode="norm",
    latent=True,
    experts=True,
    normalise_experts=False,
    unbuilt=("attention.temperature_scale",),
)
