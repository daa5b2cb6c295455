"""CUDA kernels: one CUDA C++ source, compiled by NVRTC for a GPU or, with the package, for the host."""
