"""Language models that play a role of the meta-agent: asked directly, or by agents in a sandbox.

``chat`` asks one for the engine. ``gateway`` lets an agent ask one through a unix socket without
ever holding the key; ``bridge`` is its other end, inside the sandbox. Both count in a ``meter``,
which stops at caps. ``scripted`` is an endpoint that answers by script.
"""
