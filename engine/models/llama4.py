"""llama4: Llama 4, Scout and Maverick.

Of four layers, three see only their chunk of 8192 positions and turn; q and k are then normalised without weights, but
not in Maverick, which has 128 experts. The fourth sees everything, knows no positions, and scales its queries by how
far they stand. A token goes to one expert, whose input the router's sigmoid scales, and to a shared one.
"""

from engine.models.family import Family
from engine.models.spec import Temperature

LLAMA4 = Family(
    "llama4",
    qk_norm="plain",
    norm_after_rope=True,
    unnormalised_experts=128,
    unrotated_period=4,
    window_period=4,
    chunk=8192,
    temperature=Temperature(length=8192, scale=0.1, offset=1),
    experts=True,
    gating="sigmoid",
    normalise_experts=False,
    weighs_input=True,
    unbuilt=("expert_weights_norm",),
)
