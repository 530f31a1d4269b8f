"""How near programs that wait come to what their waits allow: each time over a limit of the same run."""
