"""Work around publication: fence dead attempts, wait for readers, delete obsolete directories."""
