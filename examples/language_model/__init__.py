"""The parts of `examples/text_gradients.py`: a client of a language model, the answers it keeps, and a stand-in."""
