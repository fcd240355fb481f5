"""Copies tensors of accelerators to the host while the model continues."""
