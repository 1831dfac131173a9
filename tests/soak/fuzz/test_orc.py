"""Damaged ORC files, read and compacted: a small share of what `python -m tests.soak.fuzz` tries."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.soak.fuzz.both import examine_both
from tests.soak.fuzz.cases import make_case, sound_case
from tests.soak.fuzz.examine import End, examine
from tests.soak.fuzz.parts import close, ended, stripe_section, take_apart
from tests.soak.fuzz.seeds import Seed, make_seeds
from tests.soak.fuzz.worker import Worker

EVERY = 12
"""Of the files of Hive every so many-th is taken: each of them costs a while before the first case."""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Seed]:
    return make_seeds(tmp_path_factory.mktemp("seeds"), every=EVERY)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("worker"), examine) as worker:
        yield worker


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("both"), examine_both) as worker:
        yield worker


def cases(number: int) -> settings:
    checks = list(HealthCheck)
    return settings(max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


@cases(600)
@given(random=st.randoms(use_true_random=False))
def test_a_damaged_file_ends_in_an_error_that_names_it_or_a_right_answer(
    worker: Worker, seeds: list[Seed], random: Random
):
    verdict = worker.examine(make_case(random, seeds))
    assert verdict.end is not End.FINDING, verdict.text


@cases(150)
@given(random=st.randoms(use_true_random=False))
def test_the_kernels_and_their_references_agree_on_damaged_files(both: Worker, seeds: list[Seed], random: Random):
    verdict = both.examine(make_case(random, seeds))
    assert verdict.end is not End.FINDING, verdict.text


def test_a_file_that_is_not_damaged_is_compacted_right(both: Worker, seeds: list[Seed]):
    """So that what is refused is refused for its damage, and the plain reading finds what the engine finds."""
    sound = [sound_case(Random(number), seed) for number, seed in enumerate(seeds)]
    refused = {case.seed.name: verdict.text for case in sound if (verdict := both.examine(case)).end is not End.RIGHT}
    assert [name for name in refused if "update.orc" not in name] == []


@pytest.mark.parametrize(("copied", "end"), [(True, End.RIGHT), (False, End.REFUSED)])
def test_frames_larger_than_the_postscript_states_can_be_copied_but_not_read(
    both: Worker, seeds: list[Seed], copied: bool, end: End
):
    """No reader can read them; the copy states the size that they have, and has all rows."""
    seed = next(seed for seed in seeds if seed.path.name == "union.orc")
    parts = take_apart(seed.path)
    parts.postscript.compression_block_size = 4
    stripes = stripe_section(parts)
    content = ended(close(parts, stripes, parts.framed(parts.metadata.SerializeToString())), parts.postscript)
    case = replace(sound_case(Random(0), seed), content=content, with_twin=False, copied=copied, cut=None)
    verdict = both.examine(case)
    assert verdict.end is end, verdict.text
