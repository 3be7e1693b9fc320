"""The requirement that ends every task's description, update tasks included (paper, section 4)."""

HONESTY = (
    "Do the work yourself. Don't look for a grader, a reference answer or anybody else's solution, "
    "and don't change how the result is checked: a result obtained that way counts as failed."
)
