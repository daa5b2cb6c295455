"""minimax-m2: MiniMax M2. q and k are normalised over all heads, half of each head rotates; the router takes
sigmoids, and a bias for the choice alone."""

from engine.models.family import Family

MINIMAX_M2 = Family("minimax-m2", rope_mode="neox", qk_norm="row", experts=True, gating="sigmoid")
