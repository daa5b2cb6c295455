"""The library: find models, download them, and see what is on this machine."""
