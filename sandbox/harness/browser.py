"""Headless Chromium by its DevTools protocol: loads pages, presses keys, takes pictures."""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websocket import WebSocket, create_connection

PROGRAM = "chromium-headless-shell"
"""Debian's package of that name, which makes no window. NB: without fonts-dejavu-core it has no letters."""
DEADLINE = 30.0
_LISTENS = "DevTools listening on "
_KEYS = {"Tab": 9, "Enter": 13}


class BrowserError(Exception):
    """The browser refused a command, or a script of a test failed."""


class Browser:
    """One page of a browser; a context manager. `messages` are what the page has written to its console."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._profile = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[str] | None = None
        self._socket: WebSocket | None = None
        self._session = ""
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []

    @staticmethod
    def is_installed() -> bool:
        """Whether this machine has the browser."""
        return shutil.which(PROGRAM) is not None

    def __enter__(self) -> Self:
        # NB: as root Chromium does not start with its own sandbox. It loads pages of the test alone.
        options = ("--no-sandbox", "--remote-debugging-port=0", "--disable-lcd-text", "--hide-scrollbars")
        command = [PROGRAM, *options, f"--user-data-dir={self._profile.name}"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stderr
        address = next((line for line in self._process.stderr if line.startswith(_LISTENS)), "")
        self._socket = create_connection(address.removeprefix(_LISTENS).strip(), timeout=DEADLINE, suppress_origin=True)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._socket:
            self._socket.close()
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
        self._profile.cleanup()

    def shape(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        """Set the size of the page, whether it is a phone's, and whether the user prefers dark colours."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Load a page to its end."""
        self._events.clear()
        self._call("Page.navigate", url=address)
        self.loaded()

    def follow(self, key: str) -> None:
        """Press a key that leads to another page, and wait until that is loaded."""
        self._events.clear()
        self.press(key)
        self.loaded()

    def loaded(self) -> None:
        """Wait until the next page is loaded."""
        while not any(one["method"] == "Page.loadEventFired" for one in self._events):
            self._next()
        self._events.clear()

    def press(self, key: str) -> None:
        """Press a key: Tab or Enter."""
        code = _KEYS[key]
        text = {"text": "\r"} if key == "Enter" else {}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
        self._call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self._call("Input.insertText", text=text)

    def ask(self, script: str) -> Any:
        """Return the value of an expression in the page. Raises BrowserError."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def roles(self) -> list[tuple[str, str]]:
        """Return role and name of all that a screen reader has of the page, in its order."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        known = [one for one in nodes if not one["ignored"]]
        return [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in known]

    def picture(self, file: Path) -> None:
        """Write a picture of what is visible."""
        data = self._call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        file.write_bytes(base64.b64decode(data))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        assert self._socket
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **session}))
        while True:
            message = self._next()
            if message.get("id") == number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                found: dict[str, Any] = message["result"]
                return found

    def _next(self) -> dict[str, Any]:
        """Return the next message of the browser, and note it if it is an event."""
        assert self._socket
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self._events.append(message)
        if message.get("method") == "Log.entryAdded":
            self.messages.append(message["params"]["entry"]["text"])
        return message
