"""Tests of asyncgrad.tree."""
