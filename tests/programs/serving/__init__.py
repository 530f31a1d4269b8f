"""The service of examples/serve_and_learn.py: its parts, its answers, and its process."""
