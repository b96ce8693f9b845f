"""A cluster in memory: read, changed and simulated, who uses what of it, and how it is shown."""
