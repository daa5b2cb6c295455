"""Loads a vocabulary, asks of it what the app will ask, and ends: `python -m engine.text.vocabulary_child PATH`.

Exits 0 when all is well and 1 after one JSON line that says what is wrong; llama.cpp may also abort it.
"""

from __future__ import annotations

import json
import sys

from engine.errors import EngineError
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import load_vocabulary

_SAMPLE = "Hello, wörld! 12345\n\n\tif (x >= 1) { y = '漢字 🙂'; }  <|im_end|></s>"


def error_as_dict(error: EngineError) -> dict[str, str]:
    return {"kind": type(error).__name__, "cause": error.cause, "done": error.done, "remedy": error.remedy}


def exercise(path: str) -> None:
    tokenizer = Tokenizer(load_vocabulary(path), path)
    for add_special in (True, False):
        for parse_special in (True, False):
            tokens = tokenizer.encode(_SAMPLE, add_special=add_special, parse_special=parse_special)
            tokenizer.decode(tokens, special=True)


def main(path: str) -> int:
    try:
        exercise(path)
    except EngineError as error:
        print(json.dumps(error_as_dict(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
