"""The reading benchmark's judgement."""

from bench.reading import Compared, misses


def test_a_reader_that_takes_over_five_percent_longer_is_named() -> None:
    within, beyond = Compared("c", "hive", ours=1.05, hive=1.0), Compared("e", "spark", ours=2.12, hive=2.0)
    assert misses([within, beyond]) == ["e: spark takes 1.06 times as long as for Hive's output, the limit is 1.05"]
