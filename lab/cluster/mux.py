"""One port for the API and for K3s' supervisor, as K3s has it.

K3s tells the two apart inside of one process. Here HAProxy does, by what the client names in its
TLS greeting (ALPN), and passes the connection on unopened, so that client certificates arrive.
"""

from __future__ import annotations

from pathlib import Path

from components.core.errors import DeviceError
from lab.cluster.process import Child
from lab.debian import find_haproxy

API_PORT = 6444
"""The API server's own port behind the shared one; K3s uses the same."""
SUPERVISOR_PORT = 9345
ALPN = "railyard-lab-supervisor"


def start_mux(address: str, port: int, folder: Path) -> Child:
    """Start the mux on `address:port`.

    Raises:
        DeviceError: HAProxy is not installed.
    """
    haproxy = find_haproxy()
    if haproxy is None:
        raise DeviceError("the lab's K3s needs haproxy: run `python -m lab.prerequisites`")
    config = folder / "mux.cfg"
    config.write_text(render_mux(address, port))
    child = Child("mux", [haproxy, "-db", "-f", str(config)], folder / "logs" / "mux.log")
    child.start()
    return child


def render_mux(address: str, port: int) -> str:
    """Render HAProxy's configuration of the mux."""
    return f"""global
    log stdout format raw local0 notice
defaults
    mode tcp
    timeout connect 5s
    timeout client 24h
    timeout server 24h
frontend k3s
    bind {address}:{port}
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ req.ssl_hello_type 1 }}
    use_backend supervisor if {{ req.ssl_alpn {ALPN} }}
    default_backend api
backend supervisor
    server supervisor {address}:{SUPERVISOR_PORT}
backend api
    server api {address}:{API_PORT}
"""
