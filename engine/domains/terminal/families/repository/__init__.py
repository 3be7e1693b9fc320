"""The right code of the small repositories that agents repair: read as text, never imported."""
