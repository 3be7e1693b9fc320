"""What a meta-agent is told of terminal tasks."""

DIRECTION = """\
The harness works in a Linux container: it gets an instruction and a shell, in some tasks tools of
a service beside it, and what it leaves behind is graded by a hidden check. The tasks differ in
kind: work on files, repair of code, questions over documents, needles in very long outputs,
dialogues under a policy, events that arrive meanwhile. Improve what helps across kinds: what the
model sees of long outputs, what is kept of a long history, when work counts as finished and how it
is looked over before that, how errors of commands are met. Never teach the harness a task: no task
text, no file name of one task, no answer. The tasks that count are new ones, of these kinds and of
others.
"""
