"""Tests of devices: what all have in common, and what some have of their own."""
