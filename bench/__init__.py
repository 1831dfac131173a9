"""Measurements of what the operator is good for; each has a command in the Makefile and leaves JSON in `bench/out`."""
