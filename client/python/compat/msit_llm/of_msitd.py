"""Marks this package, to distinguish it from the package of the other tool."""
