"""The compatibility engine: llama.cpp in a child process, for every architecture that we do not build ourselves.

llama.cpp aborts its process on some files, so it never runs in ours. The parent's side is
`backend.CompatibilityBackend` (an `engine.backend.Backend`); `python -m engine.backends.llama_cpp` is the child.
"""
