"""Stand-ins for modules of other tools; see msitd._exec.names."""
