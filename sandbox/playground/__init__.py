"""The playground: the operator, sample tables, and a small SQL client on the sandbox, to try things by hand."""
