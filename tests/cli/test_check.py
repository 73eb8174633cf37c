"""`railyard check` and `railyard schema` as a user calls them: exit codes, no traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft7Validator, ValidationError, validate

from components.checks.registry import rule_pages
from components.checks.site import load_checked_site
from components.cli.app import say
from components.core.problem import Json
from components.reading.load import CONFIG_KEY, load_site, parse_site
from components.reading.schema import publish_schema, render_schema
from components.reading.yaml_text import parse_yaml
from tests.checks.cases import CASES, CLEAN, ROOT
from tests.checks.json_schema import find_schema_errors
from tests.cli.conftest import Call
from tests.graph.locked import pin_beside

EXAMPLE = ROOT / "examples" / "dgx-roce" / "site.yaml"
SECRETS = ("switch_password", "ssh_private_key", "k3s_token", "k3s_agent_token")
STACK = "config:\n  railyard:site: site.yaml\n"


def _site(folder: Path, case: str) -> str:
    path = folder / "site.yaml"
    path.write_text(CASES[case].text(), encoding="utf-8")
    return str(path)


def _example(folder: Path, *, pinned: bool = True) -> Path:
    path = folder / "site.yaml"
    path.write_text(EXAMPLE.read_text())
    if pinned:
        pin_beside(path)
    return path


def test_clean_file_is_exit_0(railyard: Call, tmp_path: Path) -> None:
    done = railyard("check", str(_example(tmp_path)))
    assert (done.code, done.err) == (0, "")
    assert "no problems" in done.out
    assert "3 hosts, 1 switch, 2 rails" in done.out


def test_warnings_alone_keep_the_line_of_what_was_read(railyard: Call, tmp_path: Path) -> None:
    site = _site(tmp_path, "kubespray-variable--left")
    pin_beside(Path(site))
    done = railyard("check", site)
    assert done.code == 0
    assert "1 warning. Nothing was touched." in done.out
    assert "good but for warnings (" in done.out


def test_a_wrong_choice_is_told_without_the_words_of_an_exception(railyard: Call) -> None:
    done = railyard("check", "site.yaml", "--format", "xml")
    assert done.code == 2
    assert "'--format': 'xml' is not one of 'text', 'json', 'sarif'" in done.err


def test_problems_are_exit_1_and_on_stdout(railyard: Call, tmp_path: Path) -> None:
    site = _site(tmp_path, "mtu-chain")
    pin_beside(Path(site))
    done = railyard("check", site)
    assert (done.code, done.err) == (1, "")
    assert f"{site}:20  switches[0].ports" in done.out
    assert done.out.endswith("1 problem. Nothing was touched.\n")


def test_json_has_the_same_problems(railyard: Call, tmp_path: Path) -> None:
    site = _site(tmp_path, "mtu-chain")
    pin_beside(Path(site))
    done = railyard("check", site, "--format", "json")
    assert done.code == 1
    report = json.loads(done.out)
    assert (report["errors"], report["warnings"]) == (1, 0)
    [problem] = report["problems"]
    assert problem["rule"] == "mtu-chain"
    assert [place["line"] for place in problem["where"]] == [4, 20]
    assert problem["where"][1]["path"] == 'switches[0].ports["1/2"].mtu_bytes'


def test_warnings_alone_are_exit_0(railyard: Call, tmp_path: Path) -> None:
    site = _site(tmp_path, "gpu-direct")
    pin_beside(Path(site))
    done = railyard("check", site)
    assert done.code == 0
    assert "gpu-direct (warning)" in done.out


def test_files_without_checksums_are_refused_as_an_update_does(
    railyard: Call, tmp_path: Path
) -> None:
    site = _example(tmp_path, pinned=False)
    done = railyard("check", str(site))
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("unpinned: k3s, k3s-install-script, gpu-operator, ")
    assert f"  where  {site}:70  kubernetes.source.binary = https://github.com/" in done.out
    assert f"  fix    run `railyard pin {site}` where there is a network" in done.out
    assert f"{site}: the rules hold (dgx-roce: 3 hosts, " in done.out


def test_a_lab_stack_needs_no_checksums_of_images_and_has_no_real_device(
    railyard: Call, tmp_path: Path
) -> None:
    _example(tmp_path, pinned=False)
    stack = tmp_path / "Pulumi.dev.yaml"
    secrets = "".join(f"  railyard:{name}: {{secure: v1:x}}\n" for name in SECRETS)
    stack.write_text(f"{STACK}{secrets}  railyard:lab: true\n")
    report = json.loads(railyard("check", str(stack), "--format", "json").out)
    found = {problem["rule"]: problem for problem in report["problems"]}
    assert "ghcr.io" not in found["unpinned"]["what"]
    assert found["lab-parts"]["where"][0]["file"] == str(stack)
    assert "devices of the site are not on loopback addresses" in found["lab-parts"]["what"]
    assert found["lab-parts"]["fix"] == "remove `railyard:lab` from Pulumi.dev.yaml"


def test_a_real_stack_on_the_labs_passphrase_is_refused(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _example(tmp_path)
    stack = tmp_path / "Pulumi.prod.yaml"
    secrets = "".join(f"  railyard:{name}: {{secure: v1:x}}\n" for name in SECRETS)
    stack.write_text(f"{STACK}{secrets}")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "other")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///srv/states")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert railyard("check", str(stack)).code == 0
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "railyard-lab")
    done = railyard("check", str(stack))
    assert done.code == 1
    assert "lab-parts: the stack's secrets are encrypted with the lab's passphrase" in done.out


def test_several_files_and_standard_input_end_with_the_worst_code(
    railyard: Call, tmp_path: Path
) -> None:
    good, text = str(_example(tmp_path)), CASES["mtu-chain"].text()
    assert railyard("check", good, "-", stdin=EXAMPLE.read_text()).code == 0
    done = railyard("check", good, "-", stdin=text)
    assert (done.code, done.err) == (1, "")
    assert f"{good}: no problems" in done.out
    assert "  where  <stdin>:4   rdma.mtu_bytes = 9000" in done.out
    done = railyard("check", "no.yaml", good, "-", stdin=text)
    assert (done.code, done.err) == (2, "no.yaml: file not found.\n")
    assert "<stdin>:4" in done.out
    assert done.out.endswith(
        "\n<stdin>: 1 problem. Nothing was touched.\n3 files, 1 not read: 1 problem.\n"
    )


def test_unpinned_files_are_reported_with_the_other_problems_and_after_them(
    railyard: Call, tmp_path: Path
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(EXAMPLE.read_text().replace("mtu_bytes: 9000", "mtu_bytes: 9300"))
    found = json.loads(railyard("check", str(site), "--format", "json").out)
    assert [each["rule"] for each in found["problems"]][-1] == "unpinned"
    assert found["errors"] > 1


@pytest.mark.parametrize(("text", "words"), [("", "the file is empty"), ("a: [", "<stdin>:1")])
def test_standard_input_without_a_site_is_a_problem(railyard: Call, text: str, words: str) -> None:
    done = railyard("check", "-", stdin=text)
    assert done.code == 1
    assert words in done.out


def test_json_names_its_version_and_the_file_of_each_problem(
    railyard: Call, tmp_path: Path
) -> None:
    good = str(_example(tmp_path))
    done = railyard("check", good, "-", "--format", "json", stdin=CASES["mtu-chain"].text())
    report = json.loads(done.out)
    assert (report["schema_version"], report["files"]) == (1, [good, "<stdin>"])
    assert [problem["file"] for problem in report["problems"]] == ["<stdin>"]
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    keys = {*report, *report["problems"][0], *report["problems"][0]["where"][0]}
    assert [key for key in keys if f"`{key}`" not in page] == []


@pytest.mark.parametrize(
    ("terminal", "no_colour", "coloured"),
    [(True, "", True), (True, "1", False), (False, "", False)],
)
def test_a_report_has_colours_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,  # noqa: FBT001 - a parameter of the test
    no_colour: str,
    coloured: bool,  # noqa: FBT001 - the same
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    say("mtu-chain: a \x1b[2Jproblem.\n  where  x:1\n  fix    it.\nPASSED  b", paint=True)
    out = capsys.readouterr().out
    assert r"\x1b[2J" in out  # not a text from outside
    assert ("\x1b[31mmtu-chain:\x1b[0m" in out) is coloured
    assert ("\x1b[32mPASSED\x1b[0m" in out) is coloured
    assert ("\x1b" in out) is coloured


def test_sarif_points_into_files_below_the_repository(
    railyard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sites").mkdir()
    pin_beside(Path(_site(tmp_path / "sites", "mtu-chain")))
    monkeypatch.chdir(tmp_path / "sites")
    done = railyard("check", "site.yaml", "--format", "sarif")
    assert done.code == 1
    log = json.loads(done.out)
    [run] = log["runs"]
    [result] = run["results"]
    [rule] = run["tool"]["driver"]["rules"]
    assert (log["version"], rule["id"], result["ruleIndex"]) == ("2.1.0", "mtu-chain", 0)
    assert rule["helpUri"].endswith("/docs/reference/rules.html#mtu-chain")
    assert rule["help"]["text"].startswith("The MTU never shrinks")
    assert result["level"] == "error"
    place = result["relatedLocations"][0]["physicalLocation"]
    line = (tmp_path / "sites" / "site.yaml").read_text().splitlines()[19]
    region = place["region"]
    assert place["artifactLocation"] == {"uri": "sites/site.yaml", "uriBaseId": "%SRCROOT%"}
    assert region["startLine"] == 20
    assert line[region["startColumn"] - 1 :].startswith("mtu_bytes: 1500")
    assert region["endColumn"] == len(line) + 1


def test_sarif_of_a_good_file_is_a_run_without_results(railyard: Call, tmp_path: Path) -> None:
    done = railyard("check", str(_example(tmp_path)), "--format", "sarif")
    [run] = json.loads(done.out)["runs"]
    assert (done.code, run["results"], run["tool"]["driver"]["rules"]) == (0, [], [])


def test_a_rule_is_explained_from_the_text_of_its_page(railyard: Call) -> None:
    done = railyard("explain", "mtu-chain")
    assert done.code == 0
    page = (ROOT / "docs" / "reference" / "rules.md").read_text()
    part = page.partition("### mtu-chain\n\n")[2].partition("\n### ")[0].strip()
    assert f"\n\n{part}\n\n" in done.out
    assert 'waive: {mtu-chain: "…"}' in done.out
    assert (
        "It cannot be waived: Railyard cannot plan a site" in railyard("explain", "port-target").out
    )


def test_rules_are_listed_and_an_unknown_one_gets_a_near_name(railyard: Call) -> None:
    listed = railyard("explain").out.splitlines()
    assert len(listed) == len(rule_pages())
    assert any(re.fullmatch(r"mtu-chain +The MTU never shrinks .*", line) for line in listed)
    done = railyard("explain", "mtu-chian")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("there is no rule 'mtu-chian'. Did you mean `mtu-chain`?")
    done = railyard("explain", "MTU")
    assert done.err.startswith("there is no rule 'MTU'. Rules with this word: `")
    assert "`mtu-chain`" in done.err.splitlines()[0]


def test_all_artefacts_without_a_checksum_are_named(railyard: Call, tmp_path: Path) -> None:
    site = _example(tmp_path, pinned=False)
    named = railyard("check", str(site)).out.partition(" have no checksum")[0]
    unpinned = load_checked_site(site).unpinned.artefacts
    assert len(unpinned) > 8
    assert all(each.name in named for each in unpinned)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nothing.yaml"), "nothing.yaml: file not found."),
        (("check",), "Missing argument"),
        (("chek", "x.yaml"), "No such command 'chek'"),
        (("check", "x.yaml", "--format", "xml"), "xml"),
    ],
)
def test_wrong_usage_is_exit_2(railyard: Call, arguments: tuple[str, ...], words: str) -> None:
    done = railyard(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_help_lists_the_commands(railyard: Call) -> None:
    done = railyard("--help")
    assert done.code == 0
    assert "check" in done.out
    assert "schema" in done.out


def test_a_command_does_not_import_pulumi_or_other_commands() -> None:
    code = (
        "import sys; sys.argv[1:] = ['schema']\n"
        "from components.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print(sorted({'pulumi', 'asyncssh', 'components.cli.plan'} & set(sys.modules)),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("case", "errors"),
    [("unknown-key", ["prority", "vfs_", "acceptence"]), ("missing-key", ["vlan", "image"])],
)
def test_schema_refuses_other_keys_and_missing_ones(case: str, errors: list[str]) -> None:
    value = parse_yaml(CASES[case].text(), "x").value
    found = find_schema_errors(render_schema(), value)
    assert sorted(text.split()[-1] for text in found) == sorted(errors)


_SITES = sorted(
    path for path in (ROOT / "examples").glob("*/[a-z]*.yaml") if load_site(path).spec is not None
)


@pytest.mark.parametrize("path", _SITES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_schema_takes_every_example(path: Path) -> None:
    assert find_schema_errors(render_schema(), _value(path)) == []


def test_schema_takes_a_release_that_is_a_number() -> None:
    text = (ROOT / "examples" / "dgx-roce" / "site.yaml").read_text(encoding="utf-8")
    text = text.replace("release: 3.9.2504", "release: 202405")
    assert find_schema_errors(render_schema(), parse_yaml(text, "x").value) == []


def test_every_example_is_among_those() -> None:
    folders = {path.parent for path in (ROOT / "examples").glob("*/site.yaml")}
    assert {path.parent for path in _SITES} == folders


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('pci: "0000:05:00.0"', 'pci: "05:00.0"'),
        ("numa: 0}", "numa: 0, link_gt_s: 12}"),
        ("numa: 0}", "numa: 0, gpu_pci: [card0]}"),
        ("peermem: true", 'peermem: true, kernel: {sysctls: {vm.swappiness: "1;2"}}'),
        ("peermem: true", "peermem: true, kernel: {sysctls: {vm.swappiness: true}}"),
    ],
)
def test_schema_refuses_what_the_model_refuses(old: str, new: str) -> None:
    clean = CLEAN.read_text(encoding="utf-8")
    assert find_schema_errors(render_schema(), parse_yaml(clean, "x").value) == []
    text = clean.replace(old, new, 1)
    assert parse_site(text, "x").spec is None
    assert find_schema_errors(render_schema(), parse_yaml(text, "x").value) != []


@pytest.fixture(scope="module")
def published() -> dict[str, Json]:
    return publish_schema()


def test_schema_is_printed_in_the_form_of_schemastore(
    railyard: Call, published: dict[str, Json]
) -> None:
    done = railyard("schema")
    assert done.code == 0
    assert json.loads(done.out) == published
    assert published["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert str(published["$id"]).endswith("/site.schema.json")
    assert published["title"] == "Railyard site"
    Draft7Validator.check_schema(published)
    text = json.dumps(published)
    assert [word for word in ("$defs", "discriminator", "ipv4network") if word in text] == []


def _value(path: Path) -> Json:
    value = parse_yaml(path.read_text(encoding="utf-8"), "x").value
    assert isinstance(value, dict)
    config = value.get("config")
    return config[CONFIG_KEY] if isinstance(config, dict) else value


@pytest.mark.parametrize("path", _SITES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_draft_7_takes_every_example(path: Path, published: dict[str, Json]) -> None:
    validate(_value(path), published, Draft7Validator)


@pytest.mark.parametrize("case", ["unknown-key", "missing-key"])
def test_draft_7_refuses_what_the_inner_form_refuses(case: str, published: dict[str, Json]) -> None:
    value = parse_yaml(CASES[case].text(), "x").value
    with pytest.raises(ValidationError):
        validate(value, published, Draft7Validator)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('gdr_level: "2"', 'gdr_level: "NVL"'),
        ("version: v1.36.3+k3s1", "version: v1.36.3"),
        ("binary: /opt/mirror/k3s", "binary: http://mirror/k3s"),
        ("registry_mirror: 192.168.100.10:5000", "registry_mirror: 192.168.100.10:99999"),
        ("version: v26.3.3", 'version: "26.x"'),
        ("release: 3.9.2504", 'release: "-1"'),
        ("host_key: ssh-ed25519 ", "host_key: ssh-dss "),
        ("os: onyx", "routing: {asn: 65101, router_id: 10.255.0.300}\n    os: onyx"),
        ("gpus: 8", 'hca_guids: ["0c42:a103:00b4:db"]\n    gpus: 8'),
    ],
)
def test_an_editor_refuses_what_the_model_refuses(old: str, new: str) -> None:
    text = CLEAN.read_text(encoding="utf-8")
    assert old in text
    value = parse_yaml(text.replace(old, new, 1), "site.yaml").value
    assert find_schema_errors(render_schema(), value) != []


def test_an_editor_offers_the_known_models() -> None:
    assert '"enum": ["AS9716-32D", ' in json.dumps(render_schema())
