"""Scorers: pure functions that rank nodes."""

from vgpu_scheduler.scorers.hami import HamiScorer, NodePolicy, Scorer

__all__ = ["HamiScorer", "NodePolicy", "Scorer"]
