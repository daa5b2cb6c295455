"""Everything between a GGUF file and a token. Never imports Qt."""
