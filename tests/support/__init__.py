"""What tests of several kinds share."""

import pytest

pytest.register_assert_rewrite("tests.support.metastore_contract", "tests.support.storage_contract")
