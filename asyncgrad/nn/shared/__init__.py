"""What several topics of functions and modules share, and what only computes."""
