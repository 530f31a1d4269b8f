"""Tests of asyncgrad.ops."""
