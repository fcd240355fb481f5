"""Recording in engines that call their models themselves.

There is a module for each engine: `sglang`, `vllm`, `huggingface`, `megatron`,
`transformer_engine` and `ray`. None of them imports its engine before it is
called.
"""
