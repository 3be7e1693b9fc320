"""The stages of one round. Each reads records, does one thing, and writes one record."""
