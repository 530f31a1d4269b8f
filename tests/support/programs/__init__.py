"""Random programs: what they are made of, the two worlds that run them, and the oracle that says what is right."""
