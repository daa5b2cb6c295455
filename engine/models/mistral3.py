"""mistral3: Mistral's models since Ministral 3. llama's block; queries may be scaled by how far they stand."""

from engine.models.family import Family

MISTRAL3 = Family("mistral3", experts=True, temperature_key=True)
