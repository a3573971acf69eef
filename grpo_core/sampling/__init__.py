"""Samplers: `protocol.Sampler` and its engines. Importing this package loads no torch."""
