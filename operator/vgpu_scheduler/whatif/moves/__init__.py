"""Moves of pods that free room, for one pending pod or for pods that want whole cards."""
