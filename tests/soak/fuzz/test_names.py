"""Names, write ids, partition specs and types: a small share of what `python -m tests.soak.fuzz` tries."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.soak.fuzz.names import CHECKS, Check, near

SOME = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
MADE_UP = pytest.mark.parametrize("check", [*dict(CHECKS)], ids=lambda check: check.__name__)


@MADE_UP
@SOME
@given(random=st.randoms(use_true_random=False))
def test_texts_near_the_grammar_mean_what_they_say_or_are_refused(check: Check, random: Random):
    templates = next(templates for found, templates in CHECKS if found is check)
    check(random, near(random, templates))


@MADE_UP
@SOME
@given(random=st.randoms(use_true_random=False), text=st.text())
def test_any_text_means_what_it_says_or_is_refused(check: Check, random: Random, text: str):
    check(random, text)
