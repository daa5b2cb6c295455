"""mistral3: Mistral's models since Ministral 3. llama's block. Queries scaled by position are refused."""

from engine.models.family import Family

MISTRAL3 = Family("mistral3", experts=True, unbuilt=("attention.temperature_scale",))
