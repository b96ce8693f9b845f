"""Remedies for a waiting pod: one module per kind of change; each change is tried before it is proposed."""
