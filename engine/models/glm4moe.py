"""glm4moe: GLM-4.5 and 4.6.

The feed-forward norm's tensor has attention's name. The first layers have no experts; the others add a shared one.
The router takes sigmoids, and a bias for the choice alone. The large model has norms of q and k. The last layer only
predicts further tokens.
"""

from engine.models.family import Family

GLM4MOE = Family(
    "glm4moe",
    rope_mode="neox",
    qk_norm="head",
    qk_norm_optional=True,
    ffn_norm="post_attention_norm",
    experts=True,
    gating="sigmoid",
    normalise_experts=False,
)
