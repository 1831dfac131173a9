"""The ORC specification as values: messages of the tail, types, what physical values mean."""
