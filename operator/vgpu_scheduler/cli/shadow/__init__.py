"""Runs ``vgpu-scheduler shadow``: watches a cluster, records what it sees, and reports."""
