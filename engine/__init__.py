"""The search over (harness, checkpoint) pairs, and the git archive it writes."""
