"""From a domain's name, or a dotted path to one outside this package, to the domain."""

from __future__ import annotations

import importlib
from typing import cast

from engine.domains import Domain
from engine.errors import ConfigError

DOMAINS = {"smart_home": "engine.domains.smart_home:DOMAIN"}
"""Name -> ``module:attribute``, imported only when asked for."""


def domain(name: str) -> Domain:
    """The domain called ``name``, or the object at a path ``package.module:ATTRIBUTE``.

    Raises ConfigError for an unknown name, and for a path that leads nowhere.
    """
    path = DOMAINS.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        module_name, _, attribute = path.rpartition(".")
    if not module_name or not attribute:
        known = ", ".join(sorted(DOMAINS))
        raise ConfigError(
            f"domain: no domain is called {name!r}; known: {known}, or a path package.module:NAME"
        )
    return _found(name, module_name, attribute)


def _found(name: str, module_name: str, attribute: str) -> Domain:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        known = ", ".join(sorted(DOMAINS))
        raise ConfigError(
            f"domain: {name!r} can't be imported ({error}); install it, or use one of: {known}"
        ) from error
    found = getattr(module, attribute, None)
    lacking = [part for part in ("load", "generate", "verify", "world") if not hasattr(found, part)]
    if lacking:
        raise ConfigError(
            f"domain: {module_name}:{attribute} is no domain (it has no {', '.join(lacking)}); "
            "point to an object with the methods of engine.domains.Domain"
        )
    return cast(Domain, found)
