"""Schemas become grammars that take exactly what the schema takes; what cannot be kept to is refused."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.parameters.json_schema import _KNOWN, SchemaError, grammar_of


class Matcher:
    """A small, slow recogniser of the grammars that are made here, with every choice tried."""

    def __init__(self, grammar: str) -> None:
        self.rules = {}
        for line in grammar.split("\n"):
            if "::=" in line:
                name, body = line.split("::=", 1)
                self.rules[name.strip()] = self.parse(body.strip())

    def parse(self, text: str):
        pattern = r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[A-Za-z][A-Za-z0-9]*|\{\d*,?\d*\}|[()|?*]'
        self.tokens, self.at = re.findall(pattern, text), 0
        return self.alternatives()

    def alternatives(self):
        options = [[]]
        while self.at < len(self.tokens) and self.tokens[self.at] != ")":
            token = self.tokens[self.at]
            self.at += 1
            if token == "|":
                options.append([])
                continue
            if token == "(":
                item = self.alternatives()
                self.at += 1
            elif token[0] == '"':
                item = ("text", json.loads(token))
            elif token[0] == "[":
                item = ("class", re.compile(token.replace('[^"', '[^\\"')))
            else:
                item = ("rule", token)
            low, high = self.repetition()
            options[-1].append((item, low, high))
        return ("any", options)

    def repetition(self):
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token in "?*":
                self.at += 1
                return 0, 1 if token == "?" else 10**6
            if token[0] == "{":
                self.at += 1
                low, _, high = token[1:-1].partition(",")
                if "," not in token:
                    return int(low), int(low)
                return int(low or 0), int(high) if high else 10**6
        return 1, 1

    def ends(self, item, text: str, start: int) -> set[int]:
        kind, value = item
        if kind == "text":
            return {start + len(value)} if text.startswith(value, start) else set()
        if kind == "class":
            return {start + 1} if start < len(text) and value.fullmatch(text[start]) else set()
        if kind == "rule":
            return self.ends(self.rules[value], text, start)
        return set().union(*(self.sequence(option, text, start) for option in value))

    def sequence(self, parts, text, start):
        places = {start}
        for item, low, high in parts:
            done = set(places) if low == 0 else set()
            current, count = places, 0
            while current and count < high:
                current = set().union(*(self.ends(item, text, place) for place in current)) - (
                    done if count >= low else set()
                )
                count += 1
                if count >= low:
                    done |= current
            places = done
        return places

    def takes(self, value: object, **options) -> bool:
        text = value if isinstance(value, str) and options.pop("raw", False) else json.dumps(value, **options)
        return len(text) in self.ends(self.rules["root"], text, 0)


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({}, [{}, [], 1.5, None, {"a": [1, {"b": "c"}]}], []),
        ({"type": "string"}, ["", 'q"\\\n', "é"], [1, None]),
        ({"type": "integer"}, [0, -7, 123], [1.5, "1"]),
        ({"type": "number"}, [0.5, -2, 1e10], ["x"]),
        ({"type": ["string", "null"]}, ["a", None], [3]),
        ({"enum": ["a", 2, None]}, ["a", 2, None], ["b", 3]),
        ({"const": {"k": 1}}, [{"k": 1}], [{"k": 2}]),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, [4, True], ["x"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [[1], [1, 2, 3]], [[], ["a"]]),
        ({"type": "array", "maxItems": 0}, [[]], [[1]]),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}]}, [["a", 1]], [["a"], [1, "a"]]),
        (
            PERSON,
            [{"name": "x"}, {"name": "x", "age": 3}, {"name": "x", "tags": ["a", "b"]}],
            [
                {},
                {"age": 3},
                {"name": "x", "other": 1},
                {"name": "x", "tags": ["a", "b", "c"]},
            ],
        ),
        ({"properties": {"a": {}, "b": {}}}, [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}], [{"b": 2, "a": 1}, {"c": 1}]),
        (
            {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"]},
            [{"b": 1}, {"a": 1, "b": 2, "c": 3}, {"b": 1, "c": 2}],
            [
                {"a": 1},
                {"c": 1},
            ],
        ),
        (
            {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}},
            [{}, {"next": {"next": {}}}],
            [{"next": 1}],
        ),
    ],
)
def test_exactly_what_the_schema_takes(schema, good, bad):
    matcher = Matcher(grammar_of(json.dumps(schema)))
    for value in good:
        assert matcher.takes(value, ensure_ascii=False), value
        if "const" not in schema:  # a constant is taken in one spelling
            assert matcher.takes(value, ensure_ascii=False, separators=(",", ":")), value
    for value in bad:
        assert not matcher.takes(value), value


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ('{"type": "string", "pattern": "a+"}', "pattern"),
        ('{"type": "integer", "minimum": 3}', "minimum"),
        ('{"allOf": [{}]}', "allOf"),
        ('{"type": "date"}', "date"),
        ('{"$ref": "http://example.org/x"}', "outside"),
        ('{"$ref": "#/nowhere"}', "nowhere"),
        ('{"required": ["a"], "type": "object"}', "a"),
        ('{"enum": []}', "allows nothing"),
        ("{", "JSON"),
        ("[1]", "no schema"),
        ('{"properties": [1]}', "properties.*wrong kind"),
        ('{"properties": {"a": {}}, "required": "a"}', "required.*wrong kind"),
        ('{"enum": 5}', "enum.*wrong kind"),
        ('{"anyOf": {}}', "anyOf.*wrong kind"),
        ('{"$ref": 1}', "ref.*wrong kind"),
        ('{"type": {}}', "is unknown"),
        ('{"type": "string", "minLength": "2"}', "minLength.*wrong kind"),
        ('{"type": "array", "maxItems": true}', "maxItems.*wrong kind"),
        ('{"type": "array", "minItems": 3, "maxItems": 2}', "leave nothing"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_what_cannot_be_kept_to_is_refused_by_name(schema, named):
    with pytest.raises(SchemaError, match=named):
        grammar_of(schema)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from(["object", "array", "string", "#", "#/a", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(_KNOWN)), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_a_grammar_or_refused(schema):
    try:
        assert grammar_of(json.dumps(schema)).startswith("root ::= ")
    except SchemaError as error:
        assert "cannot be kept to" in error.cause


def test_the_engine_takes_the_grammars(starter_model):
    from engine.text.grammar import Grammar
    from engine.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(starter_model)
    for schema in ({}, PERSON, {"type": "string", "minLength": 2}, {"enum": ['a"b', "\n\\", None]}):
        grammar = Grammar(grammar_of(json.dumps(schema)), tokenizer)
        first = "{" if schema in ({}, PERSON) else '"'
        (token,) = tokenizer.encode(first, add_special=False)
        assert grammar.allows(token)
