"""The state of a context, checks of arguments, and what all other folders may use."""
