"""A server of tests as a context manager: it runs for as long as the context lasts."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """Starts when the context is entered, and stops when it is left."""

    @abstractmethod
    def start(self) -> None:
        """Start it and return when it serves."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it, if it runs."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
