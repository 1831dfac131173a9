"""Tasks, results and errors travel between Spark's driver and executors."""

import pickle

from compaction_operator.orc import EventKind, InputFile, MergeResult, MergeTask, OrcError, OriginalRows


def test_tasks_results_and_errors_survive_pickling():
    task = MergeTask(
        kind=EventKind.INSERT,
        bucket=1,
        inputs=(InputFile("a", OriginalRows(536870912, 0)),),
        write_ids="db.t:1:1::",
        output="b",
    )
    result = MergeResult(output="b", rows_in=1, rows_in_by_write_id={1: 1})
    assert pickle.loads(pickle.dumps((task, result))) == (task, result)
    error = pickle.loads(pickle.dumps(OrcError("a", "it is encrypted")))
    assert (str(error), error.path, error.reason) == ("a: it is encrypted", "a", "it is encrypted")
