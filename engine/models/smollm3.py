"""smollm3: SmolLM3. llama's block; every fourth layer knows no positions."""

from engine.models.family import Family

SMOLLM3 = Family("smollm3", unrotated_period=4)
