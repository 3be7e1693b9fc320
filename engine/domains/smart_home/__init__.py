"""The smart-home domain. ``DOMAIN`` is what engine.domains.registry looks up."""

from engine.domains.smart_home.domain import DOMAIN

__all__ = ["DOMAIN"]
