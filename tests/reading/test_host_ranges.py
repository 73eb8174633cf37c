"""Templates and ranges of hosts: what is written short means what is written long."""

from __future__ import annotations

from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from components.checks.site import check_loaded
from components.core.problem import Json, render_path
from components.reading.load import Loaded, parse_site
from components.reading.port_ranges import spread_document
from tests.checks.cases import CLEAN, ROOT

SITE = yaml.safe_load(CLEAN.read_text(encoding="utf-8"))
LARGE = (ROOT / "examples" / "spine-leaf" / "site.yaml").read_text(encoding="utf-8")
RANGE = LARGE[LARGE.index("  - name: gpu[01-16]") : LARGE.index("host_defaults:")]
NAMES = ("gpu", "big", "base")


def hosts(document: dict[str, Any]) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", spread_document(document)["hosts"])


def load(text: str) -> Loaded:
    return parse_site(text, "site.yaml")


def test_an_entry_wins_over_its_templates_and_a_host_over_its_entry() -> None:
    made = hosts(
        {
            "host_templates": {
                "base": {"role": "worker", "gpus": 4, "ssh": {"user": "root", "port": 22}},
                "gpu": {"template": "base", "gpus": 8, "nics": [{"rail": "a", "vfs": 1}]},
            },
            "hosts": [
                {
                    "name": "gpu[09-10]",
                    "template": "gpu",
                    "ssh": {"address": "10.0.0.[1,7]", "port": 23},
                    "nics": [{"rail": "b"}, {"rail": "a", "address": "10.1.0.[3-4]"}],
                    "each": {"gpu10": {"gpus": 2, "ssh": {"host_key": "k"}}},
                }
            ],
        }
    )
    assert made == [
        {
            "role": "worker",
            "gpus": 8,
            "ssh": {"user": "root", "port": 23, "address": "10.0.0.1"},
            "nics": [{"rail": "a", "vfs": 1, "address": "10.1.0.3"}, {"rail": "b"}],
            "name": "gpu09",
        },
        {
            "role": "worker",
            "gpus": 2,
            "ssh": {"user": "root", "port": 23, "address": "10.0.0.7", "host_key": "k"},
            "nics": [{"rail": "a", "vfs": 1, "address": "10.1.0.4"}, {"rail": "b"}],
            "name": "gpu10",
        },
    ]


def test_no_two_hosts_share_a_part() -> None:
    """The lab changes single hosts of a document."""
    document: dict[str, Any] = {
        "host_templates": {"gpu": {"ssh": {"user": "root"}}},
        "hosts": [{"name": "gpu[1-2]", "template": "gpu"}, {"name": "gpu3", "template": "gpu"}],
    }
    first, *others = hosts(document)
    cast("dict[str, Json]", first["ssh"])["user"] = "me"
    assert [host["ssh"] for host in others] == [{"user": "root"}] * 2


_KEYS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.integers(0, 8),
        "gpu_model": st.sampled_from(["H100", "B200", None]),
        "ssh": st.fixed_dictionaries(
            {}, optional={"port": st.integers(1, 99), "user": st.just("u")}
        ),
    },
)


def over(*layers: dict[str, Any]) -> dict[str, Any]:
    """Join mappings key by key, the last one wins."""
    whole: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = whole.get(key)
            if isinstance(value, dict) and isinstance(old, dict):
                value = over(cast("dict[str, Any]", old), cast("dict[str, Any]", value))  # noqa: PLW2901
            whole[key] = value
    return whole


@settings(max_examples=30, deadline=None)
@given(_KEYS, _KEYS, _KEYS, _KEYS, st.integers(1, 12), st.integers(0, 90), st.integers(1, 3))
def test_a_short_site_is_the_written_out_one(  # noqa: PLR0913, PLR0917 - the parts of a site
    base: dict[str, Any], top: dict[str, Any], entry: dict[str, Any], own: dict[str, Any],
    count: int, first: int, width: int,
) -> None:  # fmt: skip
    numbers = [f"{first + n:0{width}}" for n in range(count)]
    if len(numbers[0]) != len(numbers[-1]) and numbers[0][0] == "0" != numbers[0]:
        numbers = [f"{number:>03}" for number in numbers]
    worker = SITE["hosts"][1]
    kept = {key: worker[key] for key in ("role", "nics")}
    login = {"ssh": {key: worker["ssh"][key] for key in ("private_key", "host_key")}}
    span = f"[{numbers[0]}-{numbers[-1]}]"
    name = f"w{span}"
    short = {
        "name": name, **over(entry, {"ssh": {"address": f"10.9.0.[{first}-{first + count - 1}]"}}),
        "template": "top", "each": {f"w{numbers[-1]}": own},
    }  # fmt: skip
    templates = {"base": over(base, kept, login), "top": {**top, "template": "base"}}
    long = [
        {
            **over(base, kept, login, top, entry, {"ssh": {"address": f"10.9.0.{first + n}"}}),
            "name": f"w{number}",
        }
        for n, number in enumerate(numbers)
    ]
    long[-1] = over(long[-1], own)
    rest: dict[str, Any] = {**SITE, "switches": [], "disruption": {}}
    others = SITE["hosts"][:1]
    one = load(yaml.safe_dump({**rest, "host_templates": templates, "hosts": [*others, short]}))
    two = load(yaml.safe_dump({**rest, "hosts": [*others, *long]}))
    assert one.spec is not None
    assert one.spec == two.spec


def test_every_line_is_that_of_the_template_or_the_entry() -> None:
    loaded = load(LARGE)
    written = LARGE.splitlines()
    for host in range(1, 17):
        for path, text in (
            (("gpus",), "    gpus: 8"),
            (("ssh", "user"), "      user: nvidia"),
            (("ssh", "address"), '    ssh: {address: "192.168.2.[11-26]"}'),
            (("name",), "  - name: gpu[01-16]"),
        ):
            line = loaded.places.line_of(("hosts", host, *path))
            assert line is not None
            assert written[line - 1] == text


def test_a_rule_names_the_place_in_the_template_once() -> None:
    text = LARGE.replace("netdev: rdma3, model: ConnectX-7", "netdev: rdma3, model: ConnectX-9000")
    [found] = check_loaded(load(text), "site.yaml").problems
    places = {(found.rule, render_path(place.path)) for place in found.where}
    assert places == {("nic-model", "host_templates.gpu.nics[3].model")}


def test_a_key_that_entry_and_template_lack_is_missed_in_the_entry() -> None:
    text = LARGE.replace('    ssh: {address: "192.168.2.[11-26]"}\n', "")
    [problem] = check_loaded(load(text), "site.yaml").problems
    assert problem.what == "hosts[1].ssh lacks `address`, which it needs (and 15 more hosts)."
    assert problem.where[0].line == 1 + text[: text.index("  - name: gpu[01-16]")].count("\n")


@pytest.mark.parametrize("count", [4096, 4097, 10**9 - 1])
def test_a_file_has_a_limit_of_hosts(count: int) -> None:
    last = f"{count:09}"
    entry: Json = {"name": f"w[000000001-{last}]", "template": "t"}
    found = parse_site(
        yaml.safe_dump({"host_templates": {"t": {"role": "worker"}}, "hosts": [entry]}), "f"
    ).problems
    assert any("more than 4096" in each.what for each in found) == (count > 4096)


def test_a_range_without_quotes_in_braces_gets_the_advice() -> None:
    text = LARGE.replace('{address: "192.168.2.[11-26]"}', "{address: 192.168.2.[11-26]}")
    [problem] = load(text).problems
    assert problem.fix.startswith('write "192.168.2.[11-26]" in quotes')


_ODD: st.SearchStrategy[Json] = st.sampled_from(
    cast(
        "list[Json]",
        [
            *(None, 3, "", "gpu", [], {}, ["gpu"], "gpu[1-2", "x[2-1]", "x[1:2]", "x[1-2][1-2]"),
            *("gpu[" + "9" * 5000 + "]", {"x1": {"each": {}}}, {"template": "gpu"}, {"gpu": 1}),
            [{"rail": []}],
        ],
    )
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "template", "each", "nics", "ssh"]), _ODD),
       st.one_of(_ODD, st.dictionaries(st.sampled_from(NAMES), st.one_of(_ODD, st.dictionaries(
           st.sampled_from(["template", "nics", "name"]), _ODD)))))  # fmt: skip
def test_odd_templates_and_hosts_are_reported(entry: dict[str, Any], templates: Json) -> None:
    text = yaml.safe_dump({**SITE, "host_templates": templates, "hosts": [*SITE["hosts"], entry]})
    checked = check_loaded(load(text), "site.yaml")
    assert all(place.line for problem in checked.problems for place in problem.where)
    assert all(problem.fix for problem in checked.problems)


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("gpu[1-1000000000]", "10.9.0.[1-4]", "gpu[1-1000000000] has a number of more than nine"),
        ("gpu[1-4]", "10.9.0.[1-1000000000]", "10.9.0.[1-1000000000] has a number of more than"),
        ("gpu[1-2]", "10.9.0.25[5-6]", "10.9.0.25[5-6] counts to 256, and no IPv4 address"),
        ("gpu[1-9]", "10.9.0.[250-253]", "counts 4. write an entry of hosts for each"),
        ("gpu[1-4]", "10.9.0.[254-257]", "10.9.0.[254-257] counts to 257, and no IPv4 address"),
        ("gpu[1-4]", "10.9.0.[1-999999999]", "gpu[1-4] is 4 hosts, and 10.9.0.[1-999999999] co"),
        (f"gpu[{'1,' * 9999}1]", "10.9.0.[1-4]", "1,1... makes 10001 hosts, more than 4096."),
    ],
)
def test_each_slip_of_a_range_is_one_short_problem(name: str, address: str, words: str) -> None:
    login = {**SITE["hosts"][1]["ssh"], "address": address}
    entry = {**SITE["hosts"][1], "name": name, "ssh": login}
    found = load(yaml.safe_dump({**SITE, "hosts": [*SITE["hosts"][:1], entry]})).problems
    (problem,) = found
    said = f"{problem.what} {problem.fix}"
    assert (problem.rule, words in said) == ("host-range", True), said
    assert problem.where[0].line
    assert len(problem.what) + len(problem.fix) < 300


@pytest.mark.parametrize("templates", [None, [], "gpu"])
def test_templates_that_cannot_be_read_are_one_problem(templates: Json) -> None:
    entry = {"name": "gpu9", "template": "gpu"}
    text = yaml.safe_dump({**SITE, "host_templates": templates, "hosts": [*SITE["hosts"], entry]})
    (problem,) = load(text).problems
    assert problem.what.startswith("host_templates is ")


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("fd00::[1-16]", "node-address"),
        ("gpu[01-16].example", "node-address"),
        ("10.9.0.[1-16].[1-16]", "malformed"),
    ],
)
def test_a_wrong_address_of_a_range_is_one_problem(address: str, rule: str) -> None:
    text = LARGE.replace('address: "192.168.2.[11-26]"', f'address: "{address}"')
    assert text != LARGE
    (problem,) = check_loaded(load(text), "site.yaml").problems
    assert (problem.rule, problem.more) == (rule, 15)


def test_a_circle_of_many_templates_is_one_short_problem() -> None:
    templates = {f"t{n}": {"template": f"t{(n + 1) % 3000}"} for n in range(3000)}
    hosts = [*SITE["hosts"], {"name": "gpu9", "template": "t7"}]
    text = yaml.safe_dump({**SITE, "host_templates": templates, "hosts": hosts})
    (problem,) = load(text).problems
    assert problem.what.startswith("the templates t0 -> t1 -> ")
    assert problem.what.endswith(" -> … -> t0 extend each other in a circle.")


def test_a_free_key_below_the_top_is_told_where_it_may_be() -> None:
    document = {**SITE, "x-note": 1, "rdma": {**SITE["rdma"], "x-note": 1}}
    (problem,) = load(yaml.safe_dump(document)).problems
    assert problem.what == "`x-note` is not a key of rdma."
    assert problem.fix.endswith("at the top of the file: only there a key may begin with `x-`.")


def test_a_long_number_in_brackets_is_no_range_without_a_comma_or_a_dash() -> None:
    templates = {"a": {"node_name": "n"}}
    entry = {"name": "g1", "template": "a", "note": "key [1234567890]"}
    assert hosts({"host_templates": templates, "hosts": [entry]}) == [
        {"name": "g1", "node_name": "n", "note": "key [1234567890]"}
    ]


def test_a_bracket_below_each_is_kept() -> None:
    entry = {"name": "gpu[01-03]", "each": {"gpu03": {"node_name": "g[1-2]"}}}
    assert hosts({"hosts": [entry]}) == [
        {"name": "gpu01"},
        {"name": "gpu02"},
        {"name": "gpu03", "node_name": "g[1-2]"},
    ]


def test_hosts_of_each_that_lack_a_key_are_named_by_the_path_of_the_first() -> None:
    address = '    ssh: {address: "192.168.2.[11-26]"}\n'
    each = "    each:\n      gpu01: {gpus: 8}\n      gpu02: {gpus: 8}\n"
    text = LARGE.replace(address, address + each).replace(' pci: "0000:5d:00.0",', "")
    [problem] = check_loaded(load(text), "site.yaml").problems
    assert problem.what.startswith("hosts[1].each.gpu01.nics[3] lacks `pci`"), problem.what
