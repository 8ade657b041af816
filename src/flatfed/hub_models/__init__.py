"""Models of Hugging Face's libraries `transformers` and `peft`: loading, what they learn, encoding, adapters."""
