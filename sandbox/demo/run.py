"""The demo: installs the operator on a cluster and plays the story. The last line says how it ended.

Run as `python -m sandbox.demo.run` from the repository's root; `make demo` does, and starts the sandbox before.
"""

import sys
import traceback

from sandbox.demo.play import Play
from sandbox.demo.story import CheckError, Story
from sandbox.harness.cluster import CommandError
from sandbox.harness.compactions import UnexpectedEndError
from sandbox.harness.settings import SettingsError, load
from sandbox.harness.stage import Stage
from sandbox.harness.wait import WaitTimeoutError

SELF_EXPLAINING = (CheckError, CommandError, UnexpectedEndError, WaitTimeoutError)
"""Failures whose message says it all; of any other one the place matters, too."""


def install(stage: Stage, story: Story) -> None:
    """Prepare the cluster and install the operator."""
    with story.step(
        "Install the operator",
        """One Helm chart: the controller, the two custom resources, a service account for the compactions'
        pods, and which warehouse they may touch: its metastore and where its files lie.""",
    ):
        stage.prepare()
        story.say(stage.operator.install())


def play(stage: Stage, story: Story) -> None:
    """Play the whole story; raises whatever stops it."""
    install(stage, story)
    with stage.connect() as warehouse:
        Play(stage, warehouse, story).all()


def main() -> int:
    """Run the demo and return the exit code."""
    story = Story()
    try:
        stage = Stage(load())
    except SettingsError as error:
        print(f"demo: FAIL: {error}")
        return 1
    try:
        play(stage, story)
    except KeyboardInterrupt:
        print("\ndemo: FAIL: interrupted")
        return 1
    except Exception as error:
        if not isinstance(error, SELF_EXPLAINING):
            traceback.print_exc(file=sys.stdout)
        print(f"\nWhat the cluster shows:\n{stage.diagnosis()}")
        print(f"\ndemo: FAIL: {one_line(error)}")
        return 1
    story.say(f"The whole story took {story.seconds:.0f} s.")
    print("\ndemo: PASS")
    return 0


def one_line(error: BaseException) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(f"{error}".split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
