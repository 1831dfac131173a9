"""What happens around publication: fencing dead attempts, waiting for readers, deleting what is obsolete."""
