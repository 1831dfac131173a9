"""A small process that starts others and says what they used: `python -m bench.engine.launcher`.

NB: the peak memory of a child counts from its parent's at the fork on, so the parent must be small.
"""

import os
import subprocess
import time

from bench.engine.serve import Answer, serve


def launch(request: Answer) -> Answer:
    """Run a command to its end and return what it and its own children used; an error has what it printed."""
    began = time.perf_counter()
    process = subprocess.Popen(request["command"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return {"error": said}
    return {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": wall, "peak_rss_mb": used.ru_maxrss / 1000 * 1.024}


if __name__ == "__main__":
    serve(launch)
