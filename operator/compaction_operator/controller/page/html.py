"""Markup with escaping by construction: only `tag` makes markup, and any other text is escaped where it is put in."""

import html
import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

VOID = frozenset({"input", "meta"})
"""Elements without content and without an end."""


class Html(str):
    """Markup. NB: made in this module alone. What is cut, joined or formatted from one is plain text again."""

    __slots__ = ()


Child: TypeAlias = "Html | str | int | Iterable[Child] | None"
"""Markup, text that is escaped, nothing, or several of them."""


def tag(name: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Return an element. Attributes are named as `aria_label` or `class_`; those of None and False are left out."""
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(opened if name in VOID else f"{opened}{markup(children)}</{name}>")


def markup(child: Child) -> Html:
    """Return one or several children as markup. Text is escaped."""
    if isinstance(child, Html):
        return child
    if child is None:
        return Html("")
    if isinstance(child, str | int):
        return _escaped(str(child))
    return Html("".join(map(markup, child)))


def raw_text(element: str, text: str) -> Html:
    """Return an element whose content HTML does not escape: a style. NB: for constants of this package alone."""
    return Html(f"<{element}>{text}</{element}>")


def document(page: Html) -> bytes:
    """Return a whole page as it is sent."""
    return f"<!DOCTYPE html>\n{page}\n".encode("utf-8", "replace")


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.strip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'


def _escaped(text: str) -> Html:
    if not text.isprintable():
        text = "".join(one if one.isprintable() or one == "\n" else _shown(one) for one in text)
    return Html(html.escape(text))


def _shown(character: str) -> str:
    """Return what stands for a character that cannot be seen: some of them turn the text around them."""
    return " " if unicodedata.category(character) in ("Zs", "Zl", "Zp") else "\N{REPLACEMENT CHARACTER}"
