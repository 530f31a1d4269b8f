"""The devices that come with asyncgrad, one a file; the engine finds each by its name."""
