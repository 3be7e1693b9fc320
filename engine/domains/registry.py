"""From a domain's name, or a path ``module:NAME`` to one outside this package, to the domain."""

from __future__ import annotations

from typing import cast

from engine.domains import Domain
from engine.errors import ConfigError
from engine.seams import find

DOMAINS = {
    "smart_home": "engine.domains.smart_home:DOMAIN",
    "attribution": "engine.domains.attribution.domain:DOMAIN",
    "rbac_sql": "engine.domains.rbac_sql.domain:DOMAIN",
    "harbor": "engine.harbor.domain:DOMAIN",
    "terminal": "engine.domains.terminal.domain:DOMAIN",
}


def domain(name: str) -> Domain:
    """The domain called ``name``. Raises ConfigError for an unknown name and for what is none."""
    found = find("domain", name, DOMAINS)
    lacking = [part for part in ("load", "generate", "verify", "world") if not hasattr(found, part)]
    if lacking:
        raise ConfigError(
            f"params.yaml: domain: {name} is no domain (it has no {', '.join(lacking)}); "
            "point to an object with the methods of engine.domains.Domain"
        )
    return cast(Domain, found)
