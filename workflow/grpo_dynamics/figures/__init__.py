"""A function per figure, from tables alone."""
