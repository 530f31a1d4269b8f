"""The laws of asyncgrad: the folders mirror the package."""
