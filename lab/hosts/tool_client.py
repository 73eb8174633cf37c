"""Stands in a lab host under the name of each emulated tool and asks the lab daemon.

Runs with `python -I -S`, so it uses the standard library alone and starts in some 10 ms. It passes
its own standard streams along, so that `sudo` can run a command on them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

SOCKET = "/run/lab/daemon/tool.sock"
HEADER = struct.Struct("!I")
KEPT_VARIABLES = ("TERM", "LANG", "LC_ALL", "PATH", "HOME", "USER", "LOGNAME", "INVOCATION_ID",
                  "DOCKER_CONFIG", "RAILYARD_LAB_CONTAINER")  # fmt: skip
KEPT_PREFIXES = ("NCCL_", "UCX_", "OMPI_")


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read a whole message part; the daemon ended when there is less."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            sys.stderr.write("the lab daemon ended\n")
            raise SystemExit(255)
        data += part
    return data


def current_folder() -> str:
    """The working directory, or / when it is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib costs 10 ms of start
    except OSError:
        return "/"


def open_streams() -> list[int]:
    """The three standard streams, with /dev/null for a closed one."""
    streams: list[int] = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
            streams.append(number)
        except OSError:
            streams.append(os.open("/dev/null", os.O_RDWR))
    return streams


def main() -> int:
    """Send the call, print the answer, end as the tool ends."""
    request = {
        "tool": sys.argv[0].rpartition("/")[2],
        "argv": sys.argv[1:],
        "cwd": current_folder(),
        "env": {
            key: value
            for key, value in os.environ.items()
            if key in KEPT_VARIABLES or key.startswith(KEPT_PREFIXES)
        },
        "umask": os.umask(0o022),
    }
    body = json.dumps(request).encode("utf-8", "surrogateescape")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(SOCKET)
        socket.send_fds(connection, [HEADER.pack(len(body)) + body], open_streams())
    except OSError as error:
        sys.stderr.write(f"the lab daemon does not answer: {error}\n")
        return 255
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: connection.sendall(bytes([received])))
    (size,) = HEADER.unpack(read_exactly(connection, HEADER.size))
    answer = json.loads(read_exactly(connection, size))
    for path, text in answer.get("files", {}).items():
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
            file.write(text)
    for stream, text in ((sys.stdout, answer["out"]), (sys.stderr, answer["err"])):
        stream.write(text)
        stream.flush()
    return int(answer["rc"])


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
