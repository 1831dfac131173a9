"""Kubernetes as the controller sees it: client, cache, work queue, resources as values, Jobs and pods."""
