"""Nested containers: their leaves, their structure, and the registry of classes of containers."""
