"""glm4: GLM-4 and GLM-Z1. Norms on both sides of every block, gate and up in one tensor, half of each head rotates.

The vision models' text part pairs its rotations in another way; its files have sections, and are refused.
"""

from engine.models.family import Family

GLM4 = Family("glm4", norms="both", unbuilt=("rope.dimension_sections",))
