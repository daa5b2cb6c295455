"""Tests; the tree mirrors the sources."""
