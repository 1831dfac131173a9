"""The next version of the API."""
