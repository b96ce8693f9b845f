"""Replays the history of a cluster under other policies."""
