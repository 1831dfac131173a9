"""Errors are one line, whatever the file's own texts are."""

import pickle

from compaction_operator.orc import OrcError


def test_an_error_is_one_line_that_begins_with_the_path_also_after_a_journey():
    error = OrcError("/t/bucket_00000", "column two\nlines\u2028long is damaged")
    assert str(error) == "/t/bucket_00000: column two lines long is damaged"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
