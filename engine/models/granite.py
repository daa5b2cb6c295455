"""granite, granitemoe: IBM's Granite 3 and 4, dense and with experts. Embedding, blocks and logits are scaled."""

from engine.models.family import Family

GRANITE = Family("granite", scales=True)
GRANITEMOE = Family("granitemoe", scales=True, experts=True)
