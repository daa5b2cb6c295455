"""How a conversation is answered: system prompt, sampling, limits, and presets of them."""
