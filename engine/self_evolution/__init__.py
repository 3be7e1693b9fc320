"""Self-evolution (second paper): the same frozen model on the same harness solves tasks and then
edits the harness that runs it. The stages below take the place of the first paper's."""
