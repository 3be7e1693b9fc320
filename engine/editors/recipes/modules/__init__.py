"""Mechanism modules as they are put into a workspace. The engine reads them and imports none."""
