"""A setting of the client that another value takes the place of for a while."""

import pytest

from compaction_operator.hudi.jvm.table import JavaTable


class Config:
    """HoodieWriteConfig with one setting."""

    def __init__(self) -> None:
        self.values = {"key": "own"}

    def getString(self, key: str) -> str:  # noqa: N802
        return self.values[key]

    def setValue(self, key: str, value: str) -> None:  # noqa: N802
        self.values[key] = value


class Table(JavaTable):
    """A table with that configuration."""

    def __init__(self, config: Config) -> None:
        self._config = config


def test_a_setting_has_its_own_value_again_after_an_error() -> None:
    """Otherwise the client would go on without a lock."""
    config = Config()
    with pytest.raises(KeyError), Table(config)._setting("key", "other"):
        assert config.values == {"key": "other"}
        raise KeyError
    assert config.values == {"key": "own"}
