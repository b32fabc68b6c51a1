"""Language models of ours as llama.cpp opens them: GGUF files of the architectures `llama` and `gpt2`."""
