"""See `acc_cmp` and `tool`."""
