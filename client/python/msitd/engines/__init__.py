"""Records what engines run that call their models themselves.

A module for each: `sglang`, `vllm`, `huggingface`, `megatron`, `transformer_engine`
and `ray`. None imports its engine before it is called.
"""
