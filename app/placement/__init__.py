"""The memory page: where everything sits, what a budget would change, and what is used right now."""
