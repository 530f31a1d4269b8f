"""Compiled autograd: backward passes that repeat run as one generated function each."""
