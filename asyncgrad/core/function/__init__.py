"""`Function`: operations whose forward and backward the user writes."""
