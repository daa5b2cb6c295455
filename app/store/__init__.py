"""Conversations on disk: a tree of messages each, in SQLite with a write-ahead log."""
