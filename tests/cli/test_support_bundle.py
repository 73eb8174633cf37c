"""`railyard support-bundle`: what it packs, that no secret is in it, and what it survives."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import shlex
import stat
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from components.cli import status as cli_status
from components.cli import support
from components.cli.status import Look
from components.core.errors import DeviceError
from components.core.key_values import HostState
from components.kubernetes.client import Answer
from components.update.seen import Seen
from tests.cli.conftest import Call
from tests.cli.put_stack import PLAN, evidence, gives, put_evidence, put_pulumi, put_stack
from tests.cli.test_status import PLACE, proof, prove
from tests.golden.site import EXAMPLES

SEAL = "4dabf18193072939515e22adb298388d"


def unpack(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def manifest(files: Mapping[str, str]) -> dict[str, Any]:
    return json.loads(files["MANIFEST.json"])


def canary(name: str) -> str:
    """A secret that differs for each place, of letters and digits, as tokens have them."""
    return f"CaNaRy{hashlib.sha256(name.encode()).hexdigest()[:24]}"


CANARIES: dict[str, str] = {}


def plant(name: str) -> str:
    CANARIES[name] = canary(name)
    return CANARIES[name]


def pem(name: str) -> str:
    """A private key whose every line is a canary."""
    lines = "\n".join(plant(f"{name} line {number}") for number in range(3))
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----\n"


def sealed(value: str) -> dict[str, str]:
    return {SEAL: "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(value)}


def said(secrets: Mapping[str, str]) -> str:
    """How logs, events and facts may show secrets."""
    lines: list[str] = []
    for value in secrets.values():
        login = base64.b64encode(f"admin:{value}".encode()).decode()
        nested = base64.b64encode(json.dumps({"auth": login, "password": value}).encode()).decode()
        lines += [f"it said {value!r} to us", json.dumps({"x": value}), quote(value, safe="")]
        lines += [f"header {login}", f"config {nested}", f"https://u:{quote(value)}@host/x"]
    return "\n".join(lines)


@pytest.fixture
def canaries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A stack with a canary in every secret, and logs, facts and events that repeat them."""
    CANARIES.clear()
    put_stack(folder)
    own = {
        "ssh_private_key": pem("ssh key"),
        "k3s_token": f"K10{'ab' * 32}::server:{plant('k3s token')}",
    }
    outside = plant("variable"), plant("program")
    monkeypatch.setenv("SITE_VARIABLE", outside[0])
    site = (EXAMPLES / "dgx-roce" / "site.yaml").read_text()
    program = f"[echo, {outside[1]}, '--token={plant('argument')}']"
    site = site.replace("{secret: k3s_agent_token}", "{env: SITE_VARIABLE}")
    site = site.replace("{secret: switch_password}", f"{{command: {program}}}")
    site += f"# old password: {plant('comment')}\n"
    (folder / "site.yaml").write_text(site)
    config: dict[str, dict[str, object]] = {
        f"railyard:{name}": {"value": value, "secret": True} for name, value in own.items()
    }
    config["other:password"] = {"value": plant("another program"), "secret": True}
    config["railyard:site"] = {"value": "site.yaml"}
    (folder / "config.json").write_text(json.dumps(config))
    ciphers = "".join(f"  railyard:{name}: {{secure: v1:{plant(name)}}}\n" for name in own)
    (folder / "Pulumi.dev.yaml").write_text(
        f"encryptionsalt: v1:{plant('salt')}\nconfig:\n  railyard:site: site.yaml\n{ciphers}"
    )
    kubeconfig = (
        f"users:\n- user:\n    token: {plant('token')}\n    password: {plant('kube')}\n"
        f"    client-key-data: {base64.b64encode(pem('client key').encode()).decode()}\n"
    )
    prove(folder, proof())
    state = json.loads((folder / "export.json").read_text())
    made = {"stdout": sealed(kubeconfig), "environment": sealed(plant("environment of a step"))}
    urn = "urn:pulumi:dev::r::command:x:Command::cluster-access"
    state["deployment"]["resources"].append({"urn": urn, "outputs": made})
    (folder / "export.json").write_text(json.dumps(state))
    monkeypatch.setenv("RAILYARD_SECRET_EXTRA", plant("RAILYARD_SECRET"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", plant("passphrase"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", plant("AWS"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"postgres://u:{plant('backend')}@db/state")
    text = said(CANARIES) + f"\n{own['ssh_private_key']}\n{kubeconfig}"
    unknown = {name: plant(name) for name in ("bearer", "crypt", "switch line", "option", "url")}
    text += (
        f"\nAuthorization: Bearer {unknown['bearer']}\nroot:$6$salt${unknown['crypt']}:1:\n"
        f"username admin password 7 {unknown['switch line']}\nrun --password {unknown['option']}\n"
        f"https://ann:{unknown['url']}@mirror.example/x\n{pem('an unknown key')}"
    )
    (folder / PLACE).with_name("nccl.log").write_text(text)
    (folder / "up.log").write_text(text)
    facts = HostState({"dmesg": text.replace("\n", " ")})
    look = Look(Seen({"gpu01": facts, "leaf-01": PLAN.switches[0].desired}))
    monkeypatch.setattr(support, "look_at", gives(look))

    class Cluster:
        def call(self, *_: object) -> Answer:
            event = {"message": text, "reason": "Failed", "lastTimestamp": "2026-01-01"}
            return Answer(200, json.dumps({"items": [event]}))

    monkeypatch.setattr(support, "connect", gives(Cluster()))
    history = [{"version": 3, "result": "failed", "message": text, "config": {"a": text}}]
    (folder / "history.json").write_text(json.dumps(history))
    put_pulumi(
        folder,
        'case "$1 $2" in "config "*) cat config.json;; "stack history") cat history.json;;'
        " stack*) cat export.json;; esac",
    )
    return CANARIES


def test_no_secret_is_in_the_bundle(railyard: Call, folder: Path, canaries: dict[str, str]) -> None:
    done = railyard("support-bundle", "dev", "--out", "b.tar.gz", "--log", "up.log")
    assert (done.code, done.err) == (0, ""), done.out
    files = unpack(folder / "b.tar.gz")
    assert {*files} >= {
        *(
            "MANIFEST.json",
            "versions.json",
            "site.yaml",
            "stack.json",
            "history.json",
            "status.txt",
        ),
        *("drift.json", "facts.json", "events.json", "logs/up.log"),
        *("report/evidence.json", "report/nccl.log"),
    }
    assert len(canaries) > 20
    for where, text in files.items():
        for name, secret in canaries.items():
            assert secret not in text, (name, where)
            assert secret[6:20] not in text, (name, where)
            for offset in range(3):
                body = base64.b64encode(b"\0" * offset + secret.encode()).decode()[6:-6]
                assert body not in text, (name, where, offset)
    assert files["logs/up.log"].count(support.MASKED) > 100
    assert "# old password: [secret]" in files["site.yaml"]
    assert "{secret: ssh_private_key}" in files["site.yaml"]


def test_a_site_in_the_file_of_the_stack_keeps_its_words_and_loses_its_ciphers(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    inline = "".join(f"    {line}\n" for line in (folder / "site.yaml").read_text().splitlines())
    stack = (folder / "Pulumi.dev.yaml").read_text().replace("  railyard:site: site.yaml\n", "")
    block = "      password:\n        secret: switch_password\n"
    (folder / "Pulumi.dev.yaml").write_text(f"{stack}  railyard:cluster:\n{inline}{block}")
    railyard("support-bundle", "dev", "--out", "b.tar.gz")
    shown = unpack(folder / "b.tar.gz")["Pulumi.dev.yaml"]
    assert block in shown
    assert "private_key: {secret: ssh_private_key}" in shown
    assert "railyard:k3s_token: {secure: [secret]}" in shown
    assert "encryptionsalt: [secret]" in shown
    for name, secret in canaries.items():
        assert secret not in shown, name


def test_the_manifest_lists_everything_and_what_is_left_out(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    del canaries
    railyard("support-bundle", "dev", "--out", "b.tar.gz")
    files = unpack(folder / "b.tar.gz")
    found = manifest(files)
    assert (found["schema_version"], found["stack"]) == (1, "dev")
    assert {each["name"] for each in found["files"]} == {*files} - {"MANIFEST.json"}
    for each in found["files"]:
        body = files[each["name"]].encode()
        assert (each["bytes"], each["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
        assert each["whole"] is True
    assert "secrets are never packed" in found["left_out"].values()
    assert "messages of the last update" in found["left_out"]


def test_only_the_owner_can_read_it_and_nothing_is_left_beside_it(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    del canaries
    (folder / "b").mkdir()
    railyard("support-bundle", "dev", "--out", "b/b.tar.gz")
    assert [each.name for each in (folder / "b").iterdir()] == ["b.tar.gz"]
    assert stat.S_IMODE((folder / "b/b.tar.gz").stat().st_mode) == 0o600
    with tarfile.open(folder / "b/b.tar.gz") as archive:
        assert {each.mode for each in archive} == {0o600}
        assert {each.name.partition("/")[0] for each in archive} == {"b"}


def test_without_a_name_the_file_has_stack_and_time(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    del canaries
    assert railyard("support-bundle", "dev").code == 0
    (made,) = folder.glob("railyard-dev-*.tar.gz")
    assert made.name.count("-") == 3


@pytest.mark.parametrize("place", ["plain", "no/such"])
def test_a_place_that_cannot_be_written_is_exit_2(
    railyard: Call, folder: Path, canaries: dict[str, str], place: str
) -> None:
    del canaries
    (folder / "plain").write_text("")
    done = railyard("support-bundle", "dev", "--out", f"{place}/b.tar.gz")
    assert done.code == 2
    assert not (folder / "no").exists()
    assert "cannot be written" in done.err
    assert "fix    name another place with --out" in done.err


def test_the_site_itself_is_not_replaced(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    del canaries
    (folder / "site.yaml").write_text("name: x\n")
    done = railyard("support-bundle", "dev", "--out", "site.yaml")
    assert (done.code, done.out) == (2, "")
    assert "site.yaml exists already. Nothing was written." in done.err
    assert (folder / "site.yaml").read_text() == "name: x\n"


def test_addresses_are_masked_alike_everywhere(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    del canaries
    text = (
        "from 10.9.8.7 to 10.9.8.7:22 over 10.9.8.0/24, fe80::1, 0C:42:a1:00:11:22, "
        "0x0c42a10300112233, 0c42:a103:0011:2233, GID fe80:0000:0000:0000:0e42:a1ff:fe00:1122; "
        "kept: 0000:05:00.0, 12:30:59, v26.7.0, 5.15.0-91, 127.0.0.1, step::name\n"
    )
    (folder / "a.log").write_text(text)
    railyard("support-bundle", "dev", "--out", "b.tar.gz", "--log", "a.log", "--mask-addresses")
    files = unpack(folder / "b.tar.gz")
    shown = files["logs/a.log"]
    first, again, *_ = shown.removeprefix("from ").replace(":22", "").split(" to ")
    assert first == again.split()[0]
    assert first.startswith("address-")
    assert "/24, " in shown
    for gone in ("10.9.8.", "fe80", "0C:42", "0x0c42", "0c42:a103"):
        assert gone not in shown
    kept = "kept: 0000:05:00.0, 12:30:59, v26.7.0, 5.15.0-91, 127.0.0.1, step::name"
    assert kept in shown
    for host in PLAN.hosts:
        address = host.converge.endpoint.address
        assert not any(address in text for text in files.values()), address
    assert manifest(files)["addresses_masked"] is True


def test_devices_that_do_not_answer_are_a_line_of_the_manifest(
    railyard: Call, folder: Path, canaries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: object) -> Look:
        raise DeviceError(f"no answer with {canaries['k3s token']}")

    monkeypatch.setattr(support, "look_at", silent)
    done = railyard("support-bundle", "dev", "--out", "b.tar.gz")
    assert done.code == 4
    assert "left out devices and cluster: no answer with [secret]" in done.out
    files = unpack(folder / "b.tar.gz")
    assert manifest(files)["left_out"]["devices and cluster"] == "no answer with [secret]"
    assert "not looked at" in files["status.txt"]
    assert "facts.json" not in files


@pytest.mark.parametrize("broken", ["absent", "hangs on", "old"])
def test_a_stack_that_does_not_answer_still_gives_the_site_and_the_last_run(
    railyard: Call, folder: Path, broken: str
) -> None:
    secret = canary("shown by the engine")
    put_stack(folder)
    put_evidence(folder, evidence(7), PLACE)
    (folder / "Pulumi.dev.yaml").write_text("config:\n  railyard:site: site.yaml\n")
    (folder / "site.yaml").write_text((EXAMPLES / "dgx-roce" / "site.yaml").read_text())
    if broken == "absent":
        (folder / "bin/pulumi").unlink()
    elif broken == "old":
        put_pulumi(folder, "echo '[]'")
    else:
        put_pulumi(folder, f"echo 'error: token: {secret}' >&2; exit 255")
    done = railyard("support-bundle", "dev", "--out", "b.tar.gz")
    assert done.code == 4
    files = unpack(folder / "b.tar.gz")
    assert {"site.yaml", "versions.json", "report/evidence.json"} <= {*files}
    assert {"configuration", "stack"} <= {*manifest(files)["left_out"]}
    assert secret not in "".join(files.values()) + done.out


def test_without_a_look_nothing_is_contacted(
    railyard: Call, folder: Path, canaries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del canaries
    monkeypatch.delattr(support, "look_at")
    monkeypatch.delattr(cli_status, "observe_site")
    done = railyard("support-bundle", "dev", "--out", "b.tar.gz", "--no-look")
    assert done.code == 0
    assert "facts.json" not in unpack(folder / "b.tar.gz")


def test_long_files_are_cut_after_they_are_masked(
    railyard: Call, folder: Path, canaries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "FILE_BYTES", 1000)
    monkeypatch.setattr(support, "BUNDLE_BYTES", 5000)
    secret = canaries["k3s token"]
    (folder / "long.log").write_text("x" * 5000 + secret + "y" * 985)
    (folder / "huge.log").write_text("x" * 5000)
    monkeypatch.setattr(support, "_LOG_BYTES", 1 << 20)
    railyard(
        *("support-bundle", "dev", "--out", "b.tar.gz", "--log", "long.log", "--log", "huge.log")
    )
    files = unpack(folder / "b.tar.gz")
    assert files["logs/long.log"].rstrip().endswith("y" * 985)
    assert not set(files["logs/long.log"].replace("y", "").strip()) & set(secret) - set("[secret]")
    whole = {each["name"]: each["whole"] for each in manifest(files)["files"]}
    assert whole["logs/long.log"] is False
    packed = sum(len(text) for name, text in files.items() if name != "MANIFEST.json")
    assert packed <= 5000
    assert any("would exceed" in why for why in manifest(files)["left_out"].values())


def test_a_log_that_is_too_long_or_a_pipe_is_left_out_whole(
    railyard: Call, folder: Path, canaries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del canaries
    monkeypatch.setattr(support, "_LOG_BYTES", 1 << 20)
    (folder / "big.log").write_bytes(b"x" * ((1 << 20) + 1))
    os.mkfifo(folder / "pipe")
    done = railyard(
        *("support-bundle", "dev", "--out", "b.tar.gz"),
        *("--log", "big.log", "--log", "pipe", "--log", "none.log"),
    )
    assert done.code == 4
    left = manifest(unpack(folder / "b.tar.gz"))["left_out"]
    assert "longer than 1 MiB" in left["big.log"]
    assert "not a regular file" in left["pipe"]
    assert "No such file" in left["none.log"]


def test_a_site_that_is_no_yaml_is_left_out(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    (folder / "site.yaml").write_text(f"a: [{canaries['program']}\n")
    (folder / "history.json").write_text("[]")
    (folder / PLACE).with_name("nccl.log").unlink()
    done = railyard("support-bundle", "dev", "--out", "b.tar.gz")
    assert done.code == 4
    files = unpack(folder / "b.tar.gz")
    assert "site.yaml" not in files
    for name, text in files.items():
        assert canaries["program"] not in text, (name, text[-1500:])


@pytest.mark.parametrize("secret", ["pa'ss", 'pa"ss\\word', "grün & <b>", "a/b+c=d e%41", "tree"])
def test_a_secret_is_found_in_the_forms_in_which_programs_write_it(secret: str) -> None:
    masks = support.Masks()
    masks.add([secret])
    for written in (
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        shlex.quote(secret).strip("'"),
    ):
        assert masks(f"<{written}>") == "<[secret]>"
    assert masks.data({"a": [secret, 3, None], secret: True}) == {
        "a": ["[secret]", 3, None],
        "[secret]": True,
    }


@pytest.mark.parametrize(
    "text",
    [
        "ssh.password: {secret: switch_password}",
        '"private_key": {"secret": "switch_password"}',
        "pulumi config set --secret railyard:switch_password",
        "gpu01 (root@10.0.0.1:22): refused our key",
        "mtu_bytes of port 1/2 is 1500, want 9216",
        "password: ''",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert support.Masks(names={"switch_password"})(text) == text


def test_a_line_of_a_megabyte_is_masked_at_once() -> None:
    """Searching each word from each of its letters would take a day."""
    for line in ("a" * (1 << 20), "token" * 200_000, "token" + " " * (1 << 20)):
        masked = support.Masks()(f"{line}\nxtoken-2 = hunter22 {line}")
        assert "hunter22" not in masked
        assert masked.startswith(line)


def test_hundreds_of_secrets_are_masked_at_once() -> None:
    masks = support.Masks()
    secrets = [hashlib.sha256(number.to_bytes(2)).hexdigest() for number in range(300)]
    begun = time.process_time()
    for each in secrets:
        masks.add([each])
    line = "gpu01 of port 1/2: mtu_bytes is 1500, want 9216\n"
    assert masks(f"{line * 2_000}{secrets[7]} {secrets[-1]}") == f"{line * 2_000}[secret] [secret]"
    assert time.process_time() - begun < 10  # one word after the other: a minute


def test_logs_of_one_name_or_with_json_lines_are_packed(
    railyard: Call, folder: Path, canaries: dict[str, str]
) -> None:
    secret = canaries["k3s token"]
    for host in ("gpu01", "gpu02"):
        (folder / host).mkdir()
        (folder / host / "dmesg").write_text(f"{host} {secret}\n")
    (folder / "events.json").write_text('{"at": 1, "password": "hunter22"}\n{"at": 2}\n')
    (folder / "deep.json").write_text("[" * 9000 + "]" * 9000)
    logs = ("gpu01/dmesg", "gpu02/dmesg", "events.json", "deep.json")
    done = railyard(
        "support-bundle", "dev", "--out", "b.tar.gz", *(w for each in logs for w in ("--log", each))
    )
    files = unpack(folder / "b.tar.gz")
    assert (files["logs/dmesg"], files["logs/2-dmesg"]) == ("gpu01 [secret]\n", "gpu02 [secret]\n")
    assert files["logs/events.json"] == '{"at": 1, "password": "[secret]"}\n{"at": 2}\n'
    assert done.code == 4
    assert "recursion" in manifest(files)["left_out"]["deep.json"]


def test_a_text_that_is_no_utf_8_is_packed() -> None:
    masks = support.Masks()
    masks.add(["geheim-ünd"])
    with io.BytesIO() as held:
        held.write(b"\xff geheim-\xc3\xbcnd")
        text = held.getvalue().decode(errors="replace")
    assert masks(text) == "� [secret]"
