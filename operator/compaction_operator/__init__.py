"""Compacts Hive ACID tables on Kubernetes and deletes the obsolete directories once their readers are gone."""

__version__ = "0.1.0"
