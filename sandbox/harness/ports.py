"""Free ports of this machine."""

import socket


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback that nothing uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
