"""The audit against reward hacking (second paper, "Preventing reward hacking").

A script flags trajectories, an independent model or a person settles each flag, and a confirmed
one scores 0 and isn't run again. Flags and verdicts are commits under ``refs/coevo/RUN/audit``;
what they speak of is never rewritten. No stage of a round reaches this package: rounds see what
an audit left of an outcome through ``Context.outcome``.
"""
