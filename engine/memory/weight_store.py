"""WeightStore: a model's weights where they are, mapped from the file, bound to a program's handles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engine.gguf import GGUFFile
from engine.models.spec import TensorShape

if TYPE_CHECKING:
    from kernels._cpu import Program

_GLANCE_BYTES = 16 << 20  # populated between two looks at the time: a few milliseconds from the system's cache


class WeightStore:
    """Owns the open file for as long as a program may read from it. `shapes` tells of parts of the file's tensors."""

    def __init__(self, gguf: GGUFFile, shapes: Mapping[str, TensorShape]) -> None:
        self._gguf = gguf
        self._shapes = shapes

    def bind(self, program: Program, handles: Mapping[str, int]) -> None:
        """Gives every weight of `program` its bytes; nothing is read or copied."""
        for name, handle in handles.items():
            program.bind_weight(handle, self.buffer(name), 0)

    def buffer(self, name: str) -> memoryview:
        """A weight's bytes as they stand in the file."""
        shape = self._shapes[name]
        if not shape.source:
            return self._gguf.buffer(name)
        return self._gguf.buffer(shape.source)[shape.offset : shape.offset + shape.nbytes]

    def populate_pages(self, is_time_up: Callable[[], bool]) -> None:
        """Makes the weights ready to be read, in the order of the graph, for as long as there is nothing else to do.

        A first step that meets every page for the first time takes twice as long.
        """
        for name, shape in self._shapes.items():
            for begin in range(0, shape.nbytes, _GLANCE_BYTES):
                if is_time_up():
                    return
                end = min(begin + _GLANCE_BYTES, shape.nbytes)
                self._gguf.populate_pages(shape.source or name, shape.offset + begin, shape.offset + end)

    def release_pages(self, name: str, begin: int = 0, end: int | None = None) -> None:
        """A weight's bytes begin … end are on a device now, so RAM need not hold them as well."""
        shape = self._shapes[name]
        end = shape.nbytes if end is None else end
        self._gguf.release_pages(shape.source or name, shape.offset + begin, shape.offset + end)

    def check_unchanged(self) -> None:
        """FileChangedError if a file was cut or changed since it was opened: what was computed lately may be wrong."""
        self._gguf.check_unchanged()

    def close(self) -> None:
        """Closes the file; bytes that a program still holds stay mapped until it is gone."""
        self._gguf.close()
