"""Speed, measured fairly: systems side by side in interleaved rounds, each bracketed by a bandwidth probe."""
