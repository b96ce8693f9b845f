"""What would help a pod that waits: one module per kind of change, each of which is tried."""
