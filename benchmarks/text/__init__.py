"""Backward passes over graphs of texts, in which each rule asks a language model, beside other libraries for that."""
