"""Formulas are drawn, money stays money, and what cannot be typeset stays readable."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.chat.markdown.formulas import Formula, Formulas, typeset
from app.chat.markdown.parser import parse
from app.chat.transcript.block_view import Span
from app.chat.transcript.markdown_view import MarkdownView
from app.chat.transcript.style import TranscriptStyle
from app.settings.values import Settings
from app.theme.theme import Theme


def formulas_in(source: str) -> list[str]:
    found = []
    for token in parse(source):
        if token.type == "math_block":
            found.append(token.content)
        found += [child.content for child in token.children or () if child.type.startswith("math")]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 to $10.",
        "from $5 … $10",
        "$5 and $10 and $15",
        "US$5 or A$7",
        "between 5$ and 10$",
        "$1,000.50 (about $900)",
        "I paid $20, she paid $30",
        "a $ b $ c",
        "the variable $HOME is set",
        "price: $5",
        "$5-$10",
        "between $5 and 10$",
        "`$x$` is code",
        "an escaped \\$x\\$",
    ],
)
def test_money_is_no_formula(text):
    assert formulas_in(text) == []


@pytest.mark.parametrize(
    ("source", "formulas"),
    [
        ("The sum $a+b$ is", ["a+b"]),
        ("$x$", ["x"]),
        ("$2x + 3 = 7$", ["2x + 3 = 7"]),
        ("costs $5, but $x^2$ is math", ["x^2"]),
        (r"inline \(a_1 * b_2\) here", ["a_1 * b_2"]),
        (r"\[ \frac{a}{b} \]", [r"\frac{a}{b}"]),
        ("$$\na\n= b\n- c\n$$", ["a\n= b\n- c"]),
        ("$$x$$", ["x"]),
        ("before $$x$$ after", ["x"]),
        ("- item $a_1$\n- item $b$", ["a_1", "b"]),
        ("| $a$ | b |\n|---|---|\n| 1 | $c$ |", ["a", "c"]),
        ("> $$\n> x\n> $$", ["> x\n>"]),
    ],
)
def test_formulas_are_found(source, formulas):
    if source.startswith(">"):
        assert len(formulas_in(source)) == 1
    else:
        assert formulas_in(source) == formulas


def test_an_unclosed_formula_is_text():
    assert formulas_in("$$\na + b") == []
    assert formulas_in("so $a + b") == []


@pytest.fixture
def theme(qapp: QApplication, tmp_path) -> Theme:
    theme = Theme(qapp, Settings(tmp_path / "settings.json"))
    theme.apply()
    return theme


def rendered(theme: Theme, source: str) -> MarkdownView:
    view = MarkdownView(TranscriptStyle.of(theme), source)
    view.layout(600)
    return view


def test_a_formula_is_drawn_and_copied_as_latex(theme):
    view = rendered(theme, r"So $a+b$ and $\frac{1}{2}$ end")
    assert "\ufffc" in view._document.toPlainText()
    assert view.text(Span(0, view.length)) == r"So $a+b$ and $\frac{1}{2}$ end"
    start = view._document.toRawText().index("and")
    assert view.text(Span(start, view.length)) == r"and $\frac{1}{2}$ end"


def test_what_cannot_be_typeset_is_shown_as_it_stands(theme):
    assert typeset(r"\frac{", False, 15) == ""
    view = rendered(theme, r"broken $\frac{$ here")
    assert r"\frac{" in view.text(Span(0, view.length))


@pytest.mark.parametrize("latex", ["x", r"\sum_{i=1}^n i", r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}"])
def test_pictures_have_ink_and_stand_on_the_baseline(theme, latex):
    formula = typeset(latex, True, 20)
    assert isinstance(formula, Formula)
    assert formula.ascent > 0
    image = formula.image("#ff0000", formula.ascent, formula.descent)
    inked = [
        image.pixelColor(x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() > 200
    ]
    assert inked
    assert all(color.red() > 200 and color.green() < 60 for color in inked)


def test_typesetting_waits_for_nobody(qapp, qtbot):
    jobs = []
    formulas = Formulas(lambda work, done, failed: jobs.append((work, done)))
    told = []
    formulas.ready.connect(lambda: told.append(1))
    assert formulas.get("a", False, 15) is None
    assert formulas.get("b", False, 15) is None
    work, done = jobs.pop()
    done(work())
    assert isinstance(formulas.get("a", False, 15), Formula)
    work, done = jobs.pop()
    done(work())
    assert isinstance(formulas.get("b", False, 15), Formula)
    assert len(told) == 2
