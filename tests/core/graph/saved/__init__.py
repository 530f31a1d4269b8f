"""What nodes save for their backward, and the hooks that keep it elsewhere."""
