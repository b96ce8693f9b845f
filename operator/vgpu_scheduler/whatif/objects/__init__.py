"""Kubernetes objects as written in files: their fields, containers, amounts and cards."""
