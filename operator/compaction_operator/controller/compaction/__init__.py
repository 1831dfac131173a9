"""What becomes of a TableCompaction: whose turn it is, and the next step as a pure decision."""
