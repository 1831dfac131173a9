"""The real controller as a local process, which can be killed, paused and started again."""

from collections.abc import Callable, Mapping
from pathlib import Path

from sandbox.plane.processes import Entry, Launch, PythonProcess


class Controller:
    """`compaction-operator run`, started by `start`; all its lives write into one log."""

    def __init__(
        self,
        *,
        folder: Path,
        config: Path,
        launch: Callable[..., Launch],
        entry: Entry,
        environment: Mapping[str, str],
    ) -> None:
        self.entry = entry
        self._folder = folder
        self._config = config
        self._launch = launch
        self._environment = environment
        self._process: PythonProcess | None = None
        self._lost: list[PythonProcess] = []
        folder.mkdir()

    @property
    def log(self) -> Path:
        """What it says."""
        return self._folder / "log"

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start it; one that runs is let be."""
        if self.running:
            return
        arguments = ["compaction-operator", "run", "--config", str(self._config)]
        launch = self._launch(arguments=arguments, environment=self._environment, folder=self._folder)
        self._process = PythonProcess(self.entry, launch)

    def kill(self) -> None:
        """Kill it at once (SIGKILL), and those that were lost."""
        for process in (self._process, *self._lost):
            if process:
                process.kill()

    @property
    def paused(self) -> bool:
        """Whether it is stopped."""
        return self._process is not None and self._process.paused

    def lose(self) -> PythonProcess:
        """Lose its node: it goes on, or stays paused, and `start` starts another beside it. Returns the lost one.

        Raises ValueError when it was not started.
        """
        lost, self._process = self._process, None
        if lost is None:
            raise ValueError("the controller was not started")
        self._lost.append(lost)
        return lost

    def pause(self) -> None:
        """Stop it (SIGSTOP)."""
        if self._process:
            self._process.pause()

    def resume(self) -> None:
        """Let it go on after a pause."""
        if self._process:
            self._process.resume()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; return whether it came in time."""
        return self._process is None or self._process.wait(timeout)
