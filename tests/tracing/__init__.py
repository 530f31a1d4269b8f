"""Tests of asyncgrad.tracing."""
