"""What Docker on a lab host asks of a registry that really listens: one of the lab's `sources`.

dockerd speaks HTTPS and trusts what its host trusts; a login is that of the caller's config.json.
The words of a refusal are those of moby's distribution client.
"""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from lab.hosts.docker_state import Image, digest_of, registry_host, repository

PUBLIC: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""The authorities that a Debian machine trusts."""
_ACCEPT: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"
)
_TIMEOUT_S: Final = 30.0


def listens(host: str) -> bool:
    """Whether a registry is one of this machine's own addresses, so that it can be asked."""
    try:
        return ip_address(host.partition(":")[0]).is_loopback
    except ValueError:
        return False


def ask_registry(reference: str, trust: Path, auth: str) -> Image | str:
    """The image that a registry has by this name, or Docker's words why there is none.

    Args:
        reference: Its whole name, by tag or digest.
        trust: The authorities that the host trusts; where there is no such file, the public ones.
        auth: What `docker login` stored for the registry; empty without a login.
    """
    host, name = registry_host(reference), repository(reference)
    wanted = reference.partition("@")[2] or reference.removeprefix(name)[1:]
    path = f"/v2/{name.removeprefix(f'{host}/')}/manifests/{wanted}"
    context = ssl.create_default_context(cafile=str(trust if trust.exists() else PUBLIC))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    connection = http.client.HTTPSConnection(host, context=context, timeout=_TIMEOUT_S)
    login = {"Authorization": f"Basic {auth}"} if auth else {}
    try:
        connection.request("HEAD", path, headers={"Accept": _ACCEPT, **login})
        answer = connection.getresponse()
    except ssl.SSLCertVerificationError:
        return (
            f'Get "https://{host}/v2/": tls: failed to verify certificate: x509: certificate '
            "signed by unknown authority"
        )
    except OSError as error:
        return f'Get "https://{host}/v2/": dial tcp {host}: connect: {error.strerror}'
    finally:
        connection.close()
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return f'Head "https://{host}{path}": no basic auth credentials'
    if answer.status != HTTPStatus.OK:
        return f"manifest for {reference} not found: manifest unknown: manifest unknown"
    digest = answer.headers["Docker-Content-Digest"]
    return Image(digest_of("registry", digest), digests={name: digest})
