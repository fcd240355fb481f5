"""Tells this package from that of the other tool."""
