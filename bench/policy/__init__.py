"""The benchmark of policies: a fleet of tables is played on a clock of its own, through several ways to decide."""
