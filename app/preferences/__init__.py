"""The settings page, made from the declared table."""
