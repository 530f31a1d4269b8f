"""The modules of neural networks; `nn/functional` has the functions of a topic."""
