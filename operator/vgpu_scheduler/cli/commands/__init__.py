"""The options of each command; nothing here imports anything slow."""
