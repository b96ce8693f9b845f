"""Explain why a pod waits or is where it is, and which pods preemption would evict for it."""
