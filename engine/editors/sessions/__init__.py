"""Editors that are coding agents: a session each, in a sandbox, on a copy of an archived harness.

``editor`` holds the kinds, ``agents`` how each is started, ``view`` what all sessions of a round
may read, ``room`` the sandbox of one, ``session`` its life and its limits, ``work`` what is read
from the folder it leaves: the declaration, the report, the harness.
"""
