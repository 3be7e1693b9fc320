"""What the meta-agent is told of this domain (after the first paper's Prompt B)."""

DIRECTION = """\
Domain. The log of a multi-agent run that failed. The agent under evolution names who is responsible
and the step of the decisive error: the one after which the failure could no longer be avoided.
Later steps often show the damage without having caused it, and some errors were mended in time.

Figures. agent_accuracy: the right agent is named. step_accuracy: the step is named exactly. The
objective ranks by (3 agent_accuracy + 7 step_accuracy) / 10. The substring figures of the
benchmark stand beside them and decide nothing.

Interface to keep. build_harness(trace) is given the summary of a log: its question, its agents,
and for each step its id and its agent, without a word of what was said. inspect(step_ids) shows
the texts of steps, cut in the middle where they are long; with start=N it reads on from character
N. final_answer(agent, step) ends the task. Twenty turns. No text of a step may be known before it
was inspected.

Where to look. Group failures by length (<=10, 11-20, 21-40, >40 steps) and by the number of agents,
five and more apart, with counts. Tell apart: the decisive step was never inspected; it was
inspected but cut; it was seen and lost from the context later; it was seen and misread; the right
step was found and the wrong id or agent submitted. That a step was inspected is no proof that the
model saw all of it. Look at the share of steps inspected, at when it stops looking, at prompt
length, and at what one agent took over from another. Then change one thing: which steps are looked
at and in what order, how the summary is shown, what of older texts is kept, when to stop, how agent
and step are checked against each other before they are submitted.

Training. Where the same harness was measured before and after training, compare these two on
validation. Count different long logs with many agents among the training rollouts, not rows; see
whether the decisive text was still there when the model answered, and whether it was cut from the
training example. More repetitions need not mend a loss. Name a cause only with evidence for it,
and say what evidence is missing.

False friends. Answering always with the first step, the last, or the agent that speaks most.
Rules about names of agents or files, or words of the present logs. A gain on long logs that loses
the short ones.

Isolation. Read only the summary and what inspect delivers. No data files, no labels, no evaluator,
no task ids, no other task. A change should state the failure it mends, from counts by length and
number of agents, and what should be seen if it works.
"""
