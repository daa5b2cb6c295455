"""What lives where, and how fast that will be: hardware profile, costs, planner, simulator, rival strategies.

Everything but `hardware.probe` and `hardware.store` is a pure function of its arguments. Sizes are bytes, times
seconds, bandwidths bytes per second, arithmetic rates multiply-accumulates (MAC) per second.
"""
