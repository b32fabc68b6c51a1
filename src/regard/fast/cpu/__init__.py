"""What is faster on a processor: small-query attention, packed and quantised linear layers, fused decoding."""
