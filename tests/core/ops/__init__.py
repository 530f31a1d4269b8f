"""Tests of asyncgrad.core.ops."""
