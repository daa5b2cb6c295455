"""Markdown as it streams in: cut into blocks, and only the open block is parsed again."""
