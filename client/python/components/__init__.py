"""Modules by the names that scripts import from msit."""
