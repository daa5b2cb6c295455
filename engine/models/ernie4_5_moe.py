"""ernie4_5-moe: ERNIE 4.5 with experts: some layers have them, beside a shared one; a bias takes part in the choice."""

from engine.models.family import Family

ERNIE4_5_MOE = Family("ernie4_5-moe", experts=True)
