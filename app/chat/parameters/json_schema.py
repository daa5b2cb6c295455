"""JSON schemas to GBNF grammars. What cannot be kept to is refused by name: an answer is never unconstrained unseen.

Supported: type (also a list), properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
enum, const, anyOf, oneOf, minLength, maxLength, local $ref. Properties come in the order of the schema.
"""

from __future__ import annotations

import json
from typing import Any

from engine.errors import EngineError

_NOTES = {"$schema", "$id", "$defs", "definitions", "title", "description", "default", "examples", "$comment"}
_KNOWN = _NOTES | {
    *("type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    *("enum", "const", "anyOf", "oneOf", "minLength", "maxLength", "$ref"),
}
_MAX_DEPTH = 40
_PRIMITIVES = r"""
ws ::= | " " | "\n" [ \t]{0,16}
value ::= object | array | string | number | boolean | null
object ::= "{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
boolean ::= "true" | "false"
null ::= "null"
"""
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


class SchemaError(EngineError):
    """A schema is no JSON, or asks for something that cannot be enforced."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The JSON schema cannot be kept to: {reason}.",
            done="Nothing was sent.",
            remedy="Change the schema in the conversation's parameters, or empty it.",
        )


def grammar_of(text: str) -> str:
    """The grammar of a schema given as JSON text. Raises SchemaError."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"it is not valid JSON ({error})") from error
    return _Converter(schema).grammar()


class _Converter:
    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._rules: dict[str, str] = {}
        self._references: dict[str, str] = {}

    def grammar(self) -> str:
        body = self._rule(self._root, "the schema", 0)
        rules = "\n".join(f"{name} ::= {text}" for name, text in self._rules.items())
        return f"root ::= ws {body} ws\n{rules}{_PRIMITIVES}"

    def _rule(self, schema: Any, place: str, depth: int) -> str:
        """An expression for one schema."""
        if depth > _MAX_DEPTH:
            raise SchemaError(f"{place} is nested too deeply")
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, dict):
            raise SchemaError(f"{place} is no schema")
        if unknown := sorted(set(schema) - _KNOWN):
            raise SchemaError(f"“{unknown[0]}” in {place} is not supported")
        if "$ref" in schema:
            return self._reference(_value(schema, "$ref", place, str), place, depth)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                choices = _value(schema, key, place, list)
                return self._any([self._rule(choice, f"{place}/{key}", depth + 1) for choice in choices], place)
        if "const" in schema:
            return _literal(schema["const"])
        if "enum" in schema:
            return self._any([_literal(value) for value in _value(schema, "enum", place, list)], place)
        return self._typed(schema, place, depth)

    def _typed(self, schema: dict[str, Any], place: str, depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._any([self._typed({**schema, "type": one}, place, depth) for one in kind], place)
        if kind is None:
            if "properties" in schema:
                kind = "object"
            elif "items" in schema or "prefixItems" in schema:
                kind = "array"
            else:
                return "value"
        if not isinstance(kind, str) or kind not in _TYPES:
            raise SchemaError(f"the type {kind!r} in {place} is unknown")
        if kind == "object":
            return self._object(schema, place, depth)
        if kind == "array":
            return self._array(schema, place, depth)
        if kind == "string" and ("minLength" in schema or "maxLength" in schema):
            return rf'"\"" char{_repeat(*_bounds(schema, "minLength", "maxLength", place))} "\""'
        return str(kind)

    def _object(self, schema: dict[str, Any], place: str, depth: int) -> str:
        properties: dict[str, Any] = _value(schema, "properties", place, dict, {})
        required = {str(name) for name in _value(schema, "required", place, list, [])}
        if missing := sorted(required - set(properties)):
            raise SchemaError(f"“{missing[0]}” is required in {place} but not described")
        if not properties:
            return '"{" ws "}"' if schema.get("additionalProperties") is False else "object"
        members = [
            (f'{_literal(name)} ws ":" ws {self._rule(value, f"{place}/{name}", depth + 1)}', name in required)
            for name, value in properties.items()
        ]
        return f'"{{" ws {self._members(members)} ws "}}"'

    def _members(self, members: list[tuple[str, bool]]) -> str:
        """Members in order, the optional ones left out at will, commas only between those that are there.

        `rest(i)` is what may follow once something was written, `first(i)` what may come while nothing was.
        """
        rests = [""]  # rests[k]: after the last k members
        for member, required in reversed(members):
            piece = f'ws "," ws {member}'
            rest = f"{piece} {rests[-1]}" if required else f"({piece})? {rests[-1]}"
            rests.append(self._name(rest.strip()))
        count = len(members)
        options: list[str] = []
        for number, (member, required) in enumerate(members):
            options.append(f"{member} {rests[count - number - 1]}".strip())
            if required:
                return "(" + " | ".join(options) + ")"
        return "(" + " | ".join(options) + ")?"

    def _array(self, schema: dict[str, Any], place: str, depth: int) -> str:
        least, most = _bounds(schema, "minItems", "maxItems", place)
        if "prefixItems" in schema:
            items = _value(schema, "prefixItems", place, list)
            parts = [self._rule(one, f"{place}/{i}", depth + 1) for i, one in enumerate(items)]
            return '"[" ws ' + ' ws "," ws '.join(parts) + ' ws "]"'
        item = self._name(self._rule(schema.get("items", True), f"{place}/items", depth + 1))
        if most == 0:
            return '"[" ws "]"'
        more = _repeat(max(0, least - 1), None if most is None else most - 1)
        body = f'{item} (ws "," ws {item}){more}'
        return f'"[" ws {body} ws "]"' if least else f'"[" ws ({body})? ws "]"'

    def _reference(self, target: str, place: str, depth: int) -> str:
        if target in self._references:
            return self._references[target]
        found = self._root
        if not target.startswith("#"):
            raise SchemaError(f"the reference {target} in {place} leads outside the schema")
        for step in [step for step in target.lstrip("#").split("/") if step]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise SchemaError(f"the reference {target} in {place} leads nowhere")
            found = found[step]
        name = f"ref{len(self._references)}"
        self._references[target] = name
        self._rules[name] = "value"  # its place in the order
        self._rules[name] = self._rule(found, target, depth + 1)
        return name

    def _name(self, expression: str) -> str:
        name = f"r{len(self._rules)}"
        self._rules[name] = expression
        return name

    def _any(self, options: list[str], place: str) -> str:
        if not options:
            raise SchemaError(f"{place} allows nothing")
        return "(" + " | ".join(options) + ")"


def _literal(value: Any) -> str:
    """A JSON value as a quoted GBNF literal."""
    text = json.dumps(value, ensure_ascii=False)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _repeat(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _value(schema: dict[str, Any], key: str, place: str, kind: type, default: Any = None) -> Any:
    """A keyword's value. Raises SchemaError where it is of another kind."""
    value = schema.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SchemaError(f"“{key}” in {place} has a value of the wrong kind")
    return value


def _bounds(schema: dict[str, Any], lower: str, upper: str, place: str) -> tuple[int, int | None]:
    least: int = _value(schema, lower, place, int, 0)
    most: int | None = _value(schema, upper, place, int) if upper in schema else None
    if least < 0 or (most is not None and most < least):
        raise SchemaError(f"“{lower}” and “{upper}” in {place} leave nothing")
    return least, most
