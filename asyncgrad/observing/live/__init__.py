"""The live page: what runs in this process now, shown by a browser while it runs."""
