"""OLM's bundle of the operator."""
