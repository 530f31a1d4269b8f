"""The colours of times: from pale yellow, where a node took little, to dark red, where it took most."""

from __future__ import annotations

__all__ = ["heat", "ink_on"]

_STOPS = ((255, 247, 214), (254, 217, 142), (253, 156, 81), (222, 76, 48), (150, 20, 50))


def heat(share: float) -> str:
    """Return the colour of a node that took this share, from 0 to 1, of what the slowest took."""
    # The root spreads the many short times.
    place = max(0.0, min(1.0, share)) ** 0.5 * (len(_STOPS) - 1)
    below = min(int(place), len(_STOPS) - 2)
    part = place - below
    mixed = [round(one + (other - one) * part) for one, other in zip(_STOPS[below], _STOPS[below + 1], strict=True)]
    return "#" + "".join(f"{each:02x}" for each in mixed)


def ink_on(fill: str) -> str:
    """Return the colour of text that is easier to read on `fill`; black or white always has a contrast of 4.5."""
    dark, light = "#000000", "#ffffff"
    return dark if contrast(fill, dark) >= contrast(fill, light) else light


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as the WCAG defines it."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
