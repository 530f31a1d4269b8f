"""What keeps memory small: intermediate results that are computed again, or kept outside of memory."""
