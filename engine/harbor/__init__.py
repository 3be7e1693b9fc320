"""Harbor, both ways: a harness of ours as an agent of Harbor's, and its task folders as our tasks.

``agent`` and ``environment`` subclass Harbor's own classes and need the extra ``[harbor]`` (Python
3.12 or newer); ``folder``, ``world`` and ``domain`` read its task folders without it.
"""
