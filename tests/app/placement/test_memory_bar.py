"""A bar's picture is painted anew where something that it shows is another one, and only there."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage

from app.placement.memory_bar import MemoryBar
from app.placement.memory_parts import Bar, Part, Purpose
from app.settings.values import Settings
from app.theme.theme import Theme

GiB, MiB = 1 << 30, 1 << 20
PLANNED = (Part(Purpose.WEIGHTS, 4 * GiB), Part(Purpose.STATE, 512 * MiB), Part(Purpose.OTHER, 3 * GiB))


def bar(held: int = 600 * MiB, cached: int = 4 * GiB, planned: tuple[Part, ...] = PLANNED) -> Bar:
    return Bar(16 * GiB, planned, (Part(Purpose.APP, held), Part(Purpose.CACHE, cached)))


@pytest.fixture
def shown(qtbot, qapp, tmp_path):
    theme = Theme(qapp, Settings(tmp_path / "settings.json"))
    theme.load_fonts()
    theme.apply()

    def make(*bars: Bar) -> MemoryBar:
        """That shows one after the other."""
        widget = MemoryBar(theme, "RAM", "ram")
        qtbot.addWidget(widget)
        widget.resize(640, widget.height())
        for one in bars:
            widget.show_bar(one)
            widget.resize(640, widget.height())
            seen(widget)
        return widget

    return make


def seen(widget: MemoryBar) -> QImage:
    return widget.grab().toImage()


@pytest.mark.parametrize(
    ("second", "is_painted"),
    [
        (bar(held=600 * MiB + 4096), False),  # the system counts in pages
        (bar(held=601 * MiB), False),  # only the title tells
        (bar(held=700 * MiB), True),
        (bar(cached=5 * GiB), True),
        (bar(planned=PLANNED[:2]), True),
        (bar(planned=(PLANNED[0], Part(Purpose.STATE, 513 * MiB), PLANNED[2])), True),  # a word of the legend
        (Bar(16 * GiB, PLANNED), True),
    ],
)
def test_it_looks_as_if_it_had_never_shown_another(shown, second, is_painted):
    once, twice = shown(second), shown(bar())
    before = twice._picture.pixmap()
    twice.show_bar(second)
    twice.resize(640, twice.height())
    assert seen(twice) == seen(once)
    assert (twice._picture.pixmap() is not before) == is_painted
    assert twice.accessibleDescription() == once.accessibleDescription()


def test_the_title_alone_follows_a_small_change(shown):
    small, large = seen(shown(bar())), seen(shown(bar(), bar(held=601 * MiB)))
    title = small.rect().adjusted(0, 0, 0, 16 - small.height())
    rest = small.rect().adjusted(0, 22, 0, 0)
    assert small.copy(title) != large.copy(title) and small.copy(rest) == large.copy(rest)
