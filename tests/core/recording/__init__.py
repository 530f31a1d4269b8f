"""Tests of asyncgrad.core.recording."""
