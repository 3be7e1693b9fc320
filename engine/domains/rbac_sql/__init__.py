"""Role-aware text-to-SQL: answer a question by SQL where the role's policy allows it, else refuse.

``domain.DOMAIN`` is what engine.domains.registry looks up; it isn't imported here, because the
query process (``server``) starts faster without it.
"""
