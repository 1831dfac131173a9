"""Kubernetes as the controller uses it: client, cache, work queue, resources as values, Jobs and pods."""
