"""Derive remedies for a pod from its condition, its events and its namespace, for readers who may not see nodes."""
