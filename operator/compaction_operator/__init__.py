"""Compacts Hive ACID tables on Kubernetes and deletes the obsolete directories once their readers are gone."""
