"""glm4: GLM-4 and GLM-Z1. Norms on both sides of every block, gate and up in one tensor, half of each head rotates.

The vision models' text part turns its heads by halves; its files have sections of positions.
"""

from engine.models.family import Family

GLM4 = Family("glm4", norms="both")
