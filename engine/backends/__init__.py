"""Engines other than our own, behind the same commands and events."""
