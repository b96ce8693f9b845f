"""Replays what happened to a cluster under other policies."""
