"""The controller: watches the resources, decides purely, acts through Kubernetes, metastore and storage."""
