"""The functions of neural networks, each with its derivative; `nn/modules` has the modules of a topic."""
