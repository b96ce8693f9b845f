"""Carries out `vgpu-scheduler shadow`: follows a cluster, keeps what was seen, and reports."""
