"""Hive type strings (`struct<a:int,b:decimal(10,2)>`) and the ORC type trees that they denote."""

import re
from collections.abc import Iterator
from typing import Any

from compaction_operator.orc.spec.messages import Kind, Type

_PRIMITIVES = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "smallint": Kind.SHORT,
    "int": Kind.INT,
    "bigint": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp with local time zone": Kind.TIMESTAMP_INSTANT,
}
_LENGTHS = {"char": Kind.CHAR, "varchar": Kind.VARCHAR}
_NESTED = {"array": Kind.LIST, "map": Kind.MAP, "struct": Kind.STRUCT, "uniontype": Kind.UNION}
_SEPARATORS = frozenset("<>:,()")
_TOKEN = re.compile(r"[<>:,()]|[^<>:,()]+")
_NAMES = {kind: name for name, kind in (_PRIMITIVES | _LENGTHS | _NESTED | {"decimal": Kind.DECIMAL}).items()}
_DEFAULT_DECIMAL = (10, 0)
_MAX_DEPTH = 100


def parse_type(text: str) -> list[Any]:
    """Return the ORC type tree of a Hive type, in the order of column ids.

    Field names become lower case, as in Hive. The grammar is Hive's TypeInfoUtils.TypeInfoParser. Raises ValueError
    that names the unexpected token.
    """
    parser = _Parser(text)
    parser.type_(0)
    parser.end()
    return parser.types


def spell(type_: Any) -> str:
    """Return Hive's name for the type of one column, without its children."""
    name = _NAMES[Kind(type_.kind)]
    if type_.kind == Kind.DECIMAL:
        return f"{name}({type_.precision},{type_.scale})"
    return f"{name}({type_.maximum_length})" if type_.kind in _LENGTHS.values() else name


class _Parser:
    """A recursive descent parser; it assigns column ids in the order in which types begin."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = [token.strip() for token in _TOKEN.findall(text)]
        self._at = 0
        self.types: list[Any] = []

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise self._error("unexpected end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _error(self, what: str) -> ValueError:
        return ValueError(f"{self._text!r} is not a Hive type: {what}")

    def _expect(self, *tokens: str) -> str:
        token = self._next()
        if token not in tokens:
            raise self._error(f"expected {' or '.join(tokens)}, found {token}")
        return token

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at]} after its end")

    def type_(self, depth: int) -> int:
        """Parse one type and return its column id."""
        if depth > _MAX_DEPTH:
            raise self._error(f"nested more than {_MAX_DEPTH} levels deep")
        name = self._next().lower()
        column = len(self.types)
        type_ = Type()
        self.types.append(type_)
        if name in _PRIMITIVES:
            type_.kind = _PRIMITIVES[name]
        elif name in _LENGTHS:
            type_.kind = _LENGTHS[name]
            (type_.maximum_length,) = self._numbers(1)
        elif name == "decimal":
            type_.kind = Kind.DECIMAL
            type_.precision, type_.scale = self._numbers(2) if self._peeks("(") else _DEFAULT_DECIMAL
        elif name in _NESTED:
            type_.kind = _NESTED[name]
            self._nested(name, type_, depth)
        else:
            raise self._error(f"unknown type {name}")
        return column

    def _peeks(self, token: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == token

    def _numbers(self, count: int) -> list[int]:
        self._expect("(")
        numbers = [self._number()]
        while self._expect(",", ")") == ",":
            numbers.append(self._number())
        if len(numbers) > count:
            raise self._error("too many numbers in parentheses")
        return numbers + [0] * (count - len(numbers))

    def _field_name(self) -> str:
        name = self._next()
        if not name or name in _SEPARATORS:
            raise self._error("a field has no name")
        return name.lower()

    def _number(self) -> int:
        token = self._next()
        if not (token.isascii() and token.isdigit()):
            raise self._error(f"{token} is not a number")
        return int(token)

    def _nested(self, name: str, type_: Any, depth: int) -> None:
        self._expect("<")
        type_.subtypes.extend(self._children(type_, depth))
        expected = {"array": 1, "map": 2}.get(name, len(type_.subtypes))
        if len(type_.subtypes) != expected:
            raise self._error(f"{name} has {len(type_.subtypes)} types in it, not {expected}")

    def _children(self, type_: Any, depth: int) -> Iterator[int]:
        while True:
            if type_.kind == Kind.STRUCT:
                type_.field_names.append(self._field_name())
                self._expect(":")
            yield self.type_(depth + 1)
            if self._expect(",", ">") == ">":
                return
