"""Tests of asyncgrad.core.arrays."""
