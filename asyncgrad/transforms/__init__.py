"""Functions that take a function and compute its derivatives: what `ag.func` and `ag.functional` show."""
