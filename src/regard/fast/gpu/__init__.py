"""What is faster on a GPU: CUDA-graph capture, static KV caches, decode attention, GEMV, fused searches."""
