"""What the demo and the cluster tests share: commands, tables, readers and a look at the files, on any cluster."""
