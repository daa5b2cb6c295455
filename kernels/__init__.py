"""Numerics on raw memory: CPU kernels in C++, CUDA kernels compiled at run time.

Policy-free: nothing here knows of layers, budgets or files. A weight is registered once and named by a
handle from then on.
"""
