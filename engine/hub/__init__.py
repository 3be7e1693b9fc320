"""Pairs on the Hugging Face Hub: one revision and one tag for each pair that ever held the title.

``client`` speaks with the Hub, ``revision`` is what one pair looks like there, ``card`` its model
card, ``publishing`` and ``fetching`` the two ways.
"""
