"""What GitOps does to the operator's resources."""
