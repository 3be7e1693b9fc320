"""Which job comes first."""


def order(needs: dict[str, list[str]]) -> list[str]:
    """The jobs so that each comes after those it needs, the alphabetically first possible one
    next. ``needs`` maps a job to a list; a job that is only needed is a job too. Raises ValueError
    when there is no such order."""
    left = {job: set(others) for job, others in needs.items()}
    for others in needs.values():
        for other in others:
            left.setdefault(other, set())
    result: list[str] = []
    while left:
        ready = sorted(job for job, others in left.items() if not others)
        if not ready:
            raise ValueError("a circle of jobs")
        result.append(ready[0])
        del left[ready[0]]
        for waiting in left.values():
            waiting.discard(ready[0])
    return result


def levels(needs: dict[str, list[str]]) -> dict[str, int]:
    """How many jobs stand in the longest chain of needs that ends in each job (no circles)."""
    known: dict[str, int] = {}

    def level(job: str) -> int:
        if job not in known:
            known[job] = 1 + max((level(other) for other in needs.get(job, [])), default=0)
        return known[job]

    for job in needs:
        level(job)
    return known
