"""The desktop application. Knows the engine's public surface only."""
