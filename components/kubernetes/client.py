"""Access to a cluster at the moment of use, and the one place that makes a client of its API.

The kubeconfig is no input of the step that uses it: it is read from a server over SSH when it is
needed, or is in the environment for an existing cluster. So a new certificate changes no step, and
no secret is in a request.

The official library writes certificates and keys into temporary files, which stay if the process is
killed. Python's TLS can only load a key from a path, so the key goes through a file that has no
name: it is gone with the process, however that ends.
"""

from __future__ import annotations

import base64
import os
import ssl
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, Final, cast

import yaml

from components.core.errors import DeviceError, UnreachableError, UsageError
from components.core.limits import timed
from components.kubernetes.kubeconfig import choose_context, render_kubeconfig
from components.kubernetes.reference import ClusterRef, Server
from components.remote.host_session import Run
from components.remote.script import render_remote_command
from components.remote.step import OBSERVE_DEADLINE_S, env_name

_FILES: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_NONE: Final = "none"
_K3S: Final = "/etc/rancher/k3s/k3s.yaml"
"""K3s writes the file at the first start of a server, and its uninstall removes it."""


def make_client(kubeconfig: str) -> Any:  # noqa: ANN401 - the client library ships no types
    """Make the official client from the text of a kubeconfig; nothing is connected yet.

    Raises:
        DeviceError: The kubeconfig cannot be used.
    """
    # The library takes a second to load, and most runs on a host never need it.
    from kubernetes import config as kube_config  # noqa: PLC0415 - see above

    make = cast("Callable[[object], Any]", kube_config.new_client_from_config_dict)  # pyright: ignore[reportUnknownMemberType] - it ships no types
    try:
        document = yaml.safe_load(kubeconfig)
        pems = _take_pems(document)
        client = make(document)
    except (kube_config.ConfigException, yaml.YAMLError, OSError, LookupError) as error:
        raise _unusable() from error
    except (AttributeError, TypeError, ValueError) as error:
        # A part of another shape; the error's words may hold a token or a key.
        raise _unusable() from error.__cause__
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    timed(context)
    context.pems = pems
    if not client.configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif client.configuration.ssl_ca_cert is None and not pems[0]:
        context.load_default_certs()
    client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = context
    return client


class _Context(ssl.SSLContext):
    """TLS that loads the CA, the certificate and the key at the first handshake.

    So one that is broken is an error of the connection, as in the library. Several threads look at
    a cluster with one client, and OpenSSL ends the process if one uses a context that another one
    is still loading.
    """

    pems: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    loading: Lock = Lock()

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:  # noqa: ANN401 - as it is there
        with self.loading:
            authority, certificate, key = self.pems
            if authority:
                self.load_verify_locations(cadata=authority.decode())
            if certificate and key:
                with _nameless(certificate) as chain, _nameless(key) as private:
                    self.load_cert_chain(chain, private)
            self.pems = (b"", b"", b"")
        return super().wrap_socket(*args, **options)


def _unusable() -> DeviceError:
    return DeviceError("the cluster's kubeconfig cannot be used")


def _take_pems(document: dict[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Take the CA, the certificate and the key of the current context out of a kubeconfig.

    A program of the kubeconfig (`exec`) may answer with a certificate, which the library would
    write to a file as well. One that answers with a token is asked again by the library, which
    also renews the token.
    """
    context = _named(document, "context", document.get("current-context"))
    cluster = _named(document, "cluster", context.get("cluster"))
    user = _named(document, "user", context.get("user"))
    authority = base64.b64decode(cluster.pop("certificate-authority-data", ""))
    pems = [
        base64.b64decode(user.pop(f"client-{part}-data", "")) for part in ("certificate", "key")
    ]
    if "exec" in user:
        answer = _ask_program(user["exec"], cluster)
        if answer.get("clientKeyData"):
            del user["exec"]
            pems = [answer[f"client{part}Data"].encode() for part in ("Certificate", "Key")]
    return authority, pems[0], pems[1]


def _named(document: dict[str, Any], kind: str, name: object) -> dict[str, Any]:
    entries: list[dict[str, Any]] = document.get(f"{kind}s") or []
    empty: dict[str, Any] = {}
    return next((each[kind] for each in entries if each.get("name") == name), empty)


def _ask_program(program: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415 - see above
    from kubernetes.config.kube_config import ConfigNode  # noqa: PLC0415 - the same

    ask = cast("Any", ExecProvider)
    node = cast("Any", ConfigNode)
    return ask(node("exec", program), "", node("cluster", cluster)).run()


def _unnamed_file() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("railyard"), "w+b")
    return TemporaryFile()


@contextmanager
def _nameless(content: bytes) -> Generator[str]:
    """The path of a file in memory; elsewhere than on Linux, of one without a name.

    Elsewhere the file has a name only while it is still empty.
    """
    with _unnamed_file() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"{_FILES}/{file.fileno()}"


def read_kubeconfig(
    cluster: ClusterRef, run: Run, secrets: Mapping[str, str], last: str = ""
) -> str | None:
    """The administrator's kubeconfig as it is now, or None where no server has started yet.

    Args:
        cluster: Which one.
        run: How a server is asked.
        secrets: By name; holds the kubeconfig of an existing cluster.
        last: The host whose API is the last choice, since it shall leave service.

    Raises:
        DeviceError: It cannot be known whether there is one, since a server does not answer.
        UsageError: The secret kubeconfig is not in the environment.
    """
    if name := cluster.kubeconfig_secret:
        if name not in secrets:
            raise UsageError(f"no kubeconfig: set {env_name(name)} in the environment")
        return choose_context(secrets[name], cluster.context, cluster.name)
    silent: list[str] = []
    for server in sorted(cluster.servers, key=lambda each: each.endpoint.device == last):
        try:
            raw = _ask(server, run)
        except UnreachableError as error:
            silent.append(str(error).splitlines()[0])
            continue
        if raw.strip() != _NONE:
            return render_kubeconfig(raw, server.url, cluster.name)
    if silent:
        raise UnreachableError("; ".join(silent))
    return None


def _ask(server: Server, run: Run) -> str:
    read = f"cat {server.kubeconfig or _K3S} 2>/dev/null || echo {_NONE}\n"
    command = render_remote_command(read, OBSERVE_DEADLINE_S)
    answer = run(server.endpoint, command, "", OBSERVE_DEADLINE_S)
    if answer.exit_status:
        raise DeviceError(f"{server.endpoint.where}: {answer.stderr.strip()}")
    return answer.stdout
