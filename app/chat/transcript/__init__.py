"""The transcript: messages laid out lazily, painted, selectable, at any length."""
