"""Where all that is expensive to make lies (CACHE of `env.sh`)."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder of this project (it may not be there)."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "compaction-operator"
