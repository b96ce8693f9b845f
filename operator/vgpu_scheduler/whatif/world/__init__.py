"""A cluster in memory: load and change it, simulate on it, count its usage and show the results."""
