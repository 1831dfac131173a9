"""The driver benchmark's judgement."""

from typing import Any

from bench.driver import LOCAL, SPARK, START, judged


def runs(kind: str, *, cpu: float, rss: float, jvm: bool = False) -> list[dict[str, Any]]:
    """Three rounds of one kind; one of them was disturbed."""
    times = (cpu, cpu, 10 * cpu)
    return [{"kind": kind, "cpu_s": time, "wall_s": 9.0, "peak_rss_mb": rss, "jvm": jvm} for time in times]


def results(*, start: float = 0.6, local: float = 1.5, rss: float = 200.0, jvm: bool = False) -> dict[str, Any]:
    spark = runs(SPARK, cpu=9.0, rss=500.0, jvm=True)
    return judged([*runs(START, cpu=start, rss=90.0), *runs(LOCAL, cpu=local, rss=rss, jvm=jvm), *spark])


def test_what_meets_all_targets_misses_none() -> None:
    found = results()
    assert (found["missed"], found["cpu_ratio"], found["rss_ratio"]) == ([], 6.0, 2.5)


def test_each_missed_target_is_named() -> None:
    assert results(start=0.61)["missed"] == ["start: cpu_s 0.61, not at most 0.6"]
    assert results(local=1.6)["missed"] == ["local: cpu_s 1.6, not at most 1.5"]
    assert results(rss=201.0)["missed"] == ["local: peak_rss_mb 201.0, not at most 200.0"]


def test_a_jvm_has_no_part_in_small_work() -> None:
    assert results(jvm=True)["missed"] == ["3 runs without Spark started a JVM"]
