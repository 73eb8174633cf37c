"""Stands in a lab host under the name of each emulated tool and asks the lab daemon.

Runs with `python -I -S` and takes only what the interpreter has built in: it starts in 12 ms of
processor time, and in 28 ms with `json`, `signal` and `socket`, and a run calls it thousands of
times. It passes its own standard streams along, so that `sudo` can run a command on them.
"""

from __future__ import annotations

import _socket
import posix
import sys
from _json import encode_basestring_ascii as quote

TYPE_CHECKING = False  # `typing` would cost more than all of it
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

SOCKET = "/run/lab/daemon/tool.sock"
SIZE_BYTES = 4
KEPT_VARIABLES = ("TERM", "LANG", "LC_ALL", "PATH", "HOME", "USER", "LOGNAME", "INVOCATION_ID",
                  "DOCKER_CONFIG", "RAILYARD_LAB_CONTAINER")  # fmt: skip
KEPT_PREFIXES = ("NCCL_", "UCX_", "OMPI_")


def read_part(connection: _socket.socket) -> bytes:
    """Read the next part of the answer, which its size precedes."""
    return read_exactly(connection, int.from_bytes(read_exactly(connection, SIZE_BYTES), "big"))


def read_exactly(connection: _socket.socket, size: int) -> bytes:
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
        return posix.getcwd()
    except OSError:
        return "/"


def open_streams() -> list[int]:
    """The three standard streams, with /dev/null for a closed one."""
    streams: list[int] = []
    for number in (0, 1, 2):
        try:
            posix.fstat(number)
            streams.append(number)
        except OSError:
            streams.append(posix.open("/dev/null", posix.O_RDWR))
    return streams


def kept_environment() -> str:
    """The variables that tools look at, as JSON."""
    pairs: list[str] = []
    for raw, value in posix.environ.items():
        key = raw.decode("utf-8", "surrogateescape")
        if key in KEPT_VARIABLES or key.startswith(KEPT_PREFIXES):
            pairs.append(f"{quote(key)}:{quote(value.decode('utf-8', 'surrogateescape'))}")
    return ",".join(pairs)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[posix.write(descriptor, data) :]


def main() -> int:
    """Send the call, print the answer, end as the tool ends."""
    argv = ",".join(map(quote, sys.argv[1:]))
    request = (
        f'{{"tool":{quote(sys.argv[0].rpartition("/")[2])},"argv":[{argv}],'
        f'"cwd":{quote(current_folder())},"env":{{{kept_environment()}}},'
        f'"umask":{posix.umask(0o022)}}}'
    ).encode()
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in open_streams())
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(SOCKET)
        message = len(request).to_bytes(SIZE_BYTES, "big") + request
        sent = connection.sendmsg([message], [rights])
        if sent < len(message):
            connection.sendall(message[sent:])
    except OSError as error:
        sys.stderr.write(f"the lab daemon does not answer: {error}\n")
        return 255
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: connection.sendall(bytes([received])))
    status = int(read_part(connection))
    out, err = read_part(connection), read_part(connection)
    while path := read_part(connection):
        file = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o666)
        write_whole(file, read_part(connection))
        posix.close(file)
    write_whole(1, out)
    write_whole(2, err)
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
