"""Failure attribution: in the log of a failed multi-agent run, who made the decisive error, and
at which step.

``domain.DOMAIN`` is what engine.domains.registry looks up.
"""
