"""Terminal tasks: an instruction, a sandboxed folder with a shell, and a hidden grader that is put
in place after the agent has finished."""
