"""`python -m tests.update_translations`: bring the translation files up to date with the source.

New strings are added as unfinished, strings that are gone are dropped, translations are kept. In what the engine says
(engine_*.ts) the values {} of a source are {} in its translation too, or {0}, {1} … where they stand in another order.
"""

from __future__ import annotations

from xml.etree import ElementTree

from app.assets import TRANSLATIONS
from app.translation import CONTEXT, ENGINE_CONTEXT
from tests.support.engine_texts import engine_texts
from tests.support.translatable import strings


def update(path, name, texts) -> int:
    """Rewrite one file of the context `name`; returns how many of `texts` are unfinished."""
    tree = ElementTree.parse(path)
    known = {message.findtext("source"): message.find("translation") for message in tree.getroot().iter("message")}
    language = tree.getroot().get("language", "")
    root = ElementTree.Element("TS", version="2.1", language=language, sourcelanguage="en")
    context = ElementTree.SubElement(root, "context")
    ElementTree.SubElement(context, "name").text = name
    unfinished = 0
    for text in texts:
        message = ElementTree.SubElement(context, "message")
        ElementTree.SubElement(message, "source").text = text
        translation = ElementTree.SubElement(message, "translation")
        old = known.get(text)
        if old is not None and old.text and old.get("type") is None:
            translation.text = old.text
        else:
            translation.set("type", "unfinished")
            unfinished += 1
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    path.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n{body}\n', encoding="utf-8")
    return unfinished


def main() -> None:
    for pattern, name, texts in (("tessera_*.ts", CONTEXT, strings()), ("engine_*.ts", ENGINE_CONTEXT, engine_texts())):
        for path in sorted(TRANSLATIONS.glob(pattern)):
            print(f"{path.name}: {update(path, name, texts)} unfinished")


if __name__ == "__main__":
    main()
