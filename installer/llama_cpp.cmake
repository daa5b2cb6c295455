# Included where llama.cpp's own project begins, by package.py: its common library, a quarter of the build, is used by
# nothing here, and its Python package switches it on whatever is asked for.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)
