"""A cluster as the commands look at it: the live one with the user's own rights, or files."""
