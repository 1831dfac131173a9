"""What the image of this process has: the controller's small one leaves large libraries out."""

from importlib.util import find_spec


def reads_orc() -> bool:
    """Whether this process can read ORC files."""
    return all(find_spec(name) for name in ("isal", "numpy", "pyarrow"))
