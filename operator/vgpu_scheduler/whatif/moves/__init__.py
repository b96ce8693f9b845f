"""Moves of pods that make room for others: for one that waits, or for pods that want whole cards."""
