"""Colours that keep their order in grey-scale and for colour-blind readers: one hue, lightness falling evenly."""

RAMP = ("#f6faff", "#c4dfff", "#8ec4fe", "#5ea9f0", "#348dd9", "#1b73b8", "#1f588e", "#273f60", "#25282f")
"""From nothing to the largest count, in even steps of lightness (CIE L* 98 to 16)."""
BAR = "#8ec4fe"
INK = "#25282f"
QUIET = "#5b6470"
GRID = "#d9dee5"
