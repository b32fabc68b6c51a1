"""From inputs to lines of output, for every task: what `regard predict` does, in one process or in many.

Read in this order: inputs, prompts, request, outputs.
"""
