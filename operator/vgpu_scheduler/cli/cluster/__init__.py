"""A cluster as the commands read it: the live one with the user's own rights, or files."""
