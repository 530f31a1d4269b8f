"""Tests of profiles and step callbacks."""
