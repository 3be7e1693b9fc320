"""The fixed execution interface that harnesses run on: light, and never edited by evolution."""
