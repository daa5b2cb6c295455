"""The cuda device: an NVIDIA GPU through its driver alone, so that a stand-in for the driver runs all of it."""
