"""Live readings in the window: history, traces and the status line."""
