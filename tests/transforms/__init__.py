"""Tests of asyncgrad.func and asyncgrad.sync.func."""
