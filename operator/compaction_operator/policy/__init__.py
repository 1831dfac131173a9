"""CompactionPolicies as pure functions: which tables are due, what comes first, and what may start. No I/O."""
