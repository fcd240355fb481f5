"""Modules under the names that scripts import from msit."""
