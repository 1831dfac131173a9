"""The custom resources and the operator's configuration as frozen models. Imports nothing else of this package."""
