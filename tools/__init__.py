"""Programs that write files of the project."""
