"""The library: find models on the hub, download and verify them, and know what is on this machine."""
