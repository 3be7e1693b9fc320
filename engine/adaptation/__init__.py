"""Adaptation: a pair's own accepted trajectories become its model's next weights."""
