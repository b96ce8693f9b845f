"""Checks of policies: unit tests of their effect, and fields that match nothing in a cluster."""
