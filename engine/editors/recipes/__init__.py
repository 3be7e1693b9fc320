"""The editor that needs no LLM: a catalogue of general transformations of a harness."""
