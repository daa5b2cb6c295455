"""Subcommands, one a file: run(options) returns the exit status."""
