"""Shared by commands about a cluster: options, reading the cluster, and printing answers and warnings."""
