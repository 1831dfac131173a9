"""Custom resources and operator configuration as frozen models. Imports nothing else from this project."""
