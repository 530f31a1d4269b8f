"""What shows a graph or a run: profiles, pictures, progress displays and traces."""
