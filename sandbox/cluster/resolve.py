"""Ask one name server for one name, over UDP: `resolve.py NAME SERVER`; exit code 0 when it answers with an address."""

import socket
import struct
import sys

HEADER = struct.Struct(">6H")  # RFC 1035, section 4.1.1: id, flags, and the counts of the four sections


def has_address(name: str, server: str) -> bool:
    """Whether the server has an A record for the name. OSError when it does not answer within a second."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = HEADER.pack(1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(1)
        connection.sendto(query, (server, 53))
        answers: int = HEADER.unpack_from(connection.recv(512))[3]
    return answers > 0


if __name__ == "__main__":
    sys.exit(not has_address(sys.argv[1], sys.argv[2]))
