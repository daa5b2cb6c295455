"""Settings: one declared table, one file."""
