"""Rollouts of pairs on tasks: one scheduler, one journal, nothing paid for twice."""
