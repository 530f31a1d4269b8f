"""The parts of `examples/serve_and_learn.py`: network, journal, learner, service and demonstration."""
