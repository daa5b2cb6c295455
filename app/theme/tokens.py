"""Design tokens: the only place where a colour, a distance or a size is written down. Free of Qt.

Every pair in CONTRAST_PAIRS meets WCAG 2.2 AA in both themes (a test computes it): 4.5:1 for text, 3:1 for the
shapes of controls.
"""

from __future__ import annotations

from dataclasses import dataclass

SANS = "Inter"
MONO = "JetBrains Mono"
# For a Chinese window: a system of another language may give Japanese shapes to characters that both write.
CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Microsoft YaHei UI",
    "Microsoft YaHei",
)


@dataclass(frozen=True, slots=True)
class Colors:
    """Named by purpose, as #rrggbb."""

    window: str  # behind the conversation
    sidebar: str
    card: str  # composer, cards, menus
    border: str  # quiet lines
    outline: str  # the shape of a control
    hover: str
    pressed: str
    text: str
    muted: str  # secondary text
    accent: str
    accent_hover: str
    on_accent: str
    accent_soft: str  # selected rows
    bubble: str  # the owner's messages
    code: str  # behind code
    code_border: str
    selection: str
    link: str
    danger: str
    danger_soft: str
    warning: str
    warning_soft: str
    tooltip: str
    on_tooltip: str
    syntax_keyword: str
    syntax_string: str
    syntax_number: str
    syntax_comment: str
    syntax_name: str
    syntax_type: str
    place_gpu: str  # the memory page: where a thing lies; `hot` is what was used last
    place_gpu_hot: str
    place_ram: str
    place_ram_hot: str
    place_moving: str
    place_disk: str
    other: str  # memory of other programs


LIGHT = Colors(
    window="#fdfdfc",
    sidebar="#f5f5f2",
    card="#ffffff",
    border="#e5e4df",
    outline="#8b8d86",
    hover="#ecebe6",
    pressed="#e1e0da",
    text="#1e2120",
    muted="#5f635f",
    accent="#0f6b62",
    accent_hover="#0b574f",
    on_accent="#ffffff",
    accent_soft="#e2edea",
    bubble="#ebf1ee",
    code="#f6f6f3",
    code_border="#e5e4df",
    selection="#bfe0d9",
    link="#0f6b62",
    danger="#a8231c",
    danger_soft="#fcf0ee",
    warning="#7c5200",
    warning_soft="#fbf4e3",
    tooltip="#262a29",
    on_tooltip="#f2f4f3",
    syntax_keyword="#8a3ea8",
    syntax_string="#2d6a2f",
    syntax_number="#a14a00",
    syntax_comment="#646a66",
    syntax_name="#1b5fa8",
    syntax_type="#0b6b70",
    place_gpu="#2b9a8d",
    place_gpu_hot="#06453f",
    place_ram="#c0812c",
    place_ram_hot="#633900",
    place_moving="#8a49c9",
    place_disk="#909060",
    other="#8b8d86",
)

DARK = Colors(
    window="#181a1a",
    sidebar="#121414",
    card="#202323",
    border="#303434",
    outline="#727876",
    hover="#262a29",
    pressed="#2f3433",
    text="#e7eae8",
    muted="#a4aaa7",
    accent="#5cc9b8",
    accent_hover="#7ad6c7",
    on_accent="#06231f",
    accent_soft="#22332f",
    bubble="#25312e",
    code="#131515",
    code_border="#2b2f2e",
    selection="#28574f",
    link="#6fd2c2",
    danger="#ff9a90",
    danger_soft="#33201e",
    warning="#efc06a",
    warning_soft="#302817",
    tooltip="#e7eae8",
    on_tooltip="#1b1e1d",
    syntax_keyword="#d3a0ea",
    syntax_string="#9ccf8f",
    syntax_number="#f0b27a",
    syntax_comment="#8f9894",
    syntax_name="#8fbdf0",
    syntax_type="#74cdd0",
    place_gpu="#2c8a7e",
    place_gpu_hot="#a8f5e9",
    place_ram="#a8712b",
    place_ram_hot="#ffe0a8",
    place_moving="#b78af0",
    place_disk="#7878a8",
    other="#727876",
)

THEMES = {"light": LIGHT, "dark": DARK}

_ON_SURFACES = ("window", "sidebar", "card", "hover")
CONTRAST_PAIRS: tuple[tuple[str, str, float], ...] = (
    *((ink, surface, 4.5) for ink in ("text", "muted") for surface in (*_ON_SURFACES, "pressed")),
    *((ink, surface, 4.5) for ink in ("accent", "danger", "warning") for surface in ("window", "card")),
    *(("text", surface, 4.5) for surface in ("bubble", "code", "accent_soft", "selection")),
    *(("text", surface, 4.5) for surface in ("danger_soft", "warning_soft")),
    *(("muted", surface, 4.5) for surface in ("danger_soft", "warning_soft", "accent_soft")),
    ("danger", "danger_soft", 4.5),
    ("warning", "warning_soft", 4.5),
    ("on_accent", "accent", 4.5),
    ("on_accent", "accent_hover", 4.5),
    ("accent", "accent_soft", 4.5),
    ("link", "window", 4.5),
    ("on_tooltip", "tooltip", 4.5),
    ("outline", "window", 3.0),
    ("outline", "card", 3.0),
    ("outline", "sidebar", 3.0),
    *((f"place_{place}", "card", 3.0) for place in ("gpu", "gpu_hot", "ram", "ram_hot", "moving", "disk")),
    ("other", "card", 3.0),
    *((f"syntax_{kind}", "code", 4.5) for kind in ("keyword", "string", "number", "comment", "name", "type")),
)


@dataclass(frozen=True, slots=True)
class Spacing:
    """Distances in device-independent pixels."""

    xs: int = 4
    s: int = 8
    m: int = 12
    l: int = 16  # noqa: E741 - the scale's name
    xl: int = 24
    xxl: int = 32


@dataclass(frozen=True, slots=True)
class Radii:
    s: int = 6
    m: int = 10
    l: int = 16  # noqa: E741 - the scale's name


@dataclass(frozen=True, slots=True)
class TypeScale:
    """Text sizes in pixels; `body` is the conversation's, which the owner may change."""

    tiny: int = 12
    small: int = 13
    control: int = 14
    body: int = 15
    title: int = 22

    def heading(self, level: int) -> int:
        """Sizes of Markdown's headings 1 to 6, relative to the body."""
        return round(self.body * (1.5, 1.3, 1.15, 1.05, 1.0, 1.0)[level - 1])

    @property
    def code(self) -> int:
        return round(self.body * 0.9)


SPACING = Spacing()
RADII = Radii()


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio of two #rrggbb colours, 1 to 21."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
