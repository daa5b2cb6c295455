"""phi3: Phi 3, 3.5 and 4. q, k and v share a tensor, and so do gate and up."""

from engine.models.family import Family

PHI3 = Family("phi3", rope_mode="neox")
