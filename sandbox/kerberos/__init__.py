"""A real Kerberos realm for tests: MIT's KDC as a process of this machine."""
