"""Outside coding agents as solvers: Codex, or any command, on the tasks that harnesses solve.

Each rollout is a session in a sandbox of its own (``engine.editors.sessions``): its model is behind
the gateway, and its shell is the task's. Evaluations alone use this; no round does.
"""
