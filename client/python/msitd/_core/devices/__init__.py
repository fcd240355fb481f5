"""Brings tensors of accelerators to the host while the model goes on."""
