"""The file after discovery: what is added, what is never touched, and a second run is still."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.checks.site import load_checked_site
from components.core.errors import SpecError, UsageError
from components.core.problem import Json
from components.discover.run import compare, render_report
from components.discover.site_file import find_targets, read_site_file
from components.hosts.look import CardFact, HostLook, LinkFact
from components.reading.yaml_text import parse_yaml
from tests.discover.played import bare, dgx, look_at, nic
from tests.discover.sites import BLOCK, GPU01, HEAD, SSH, TAIL, added, run


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> HostLook:
    return look_at(dgx(), tmp_path_factory.mktemp("dgx"))


def card(rail: int, bus: str, name: int, numa: int, *gpus: str) -> str:
    own = ", ".join(f'"0000:{gpu}:00.0"' for gpu in gpus)
    return (
        f'      - {{rail: rail-{rail}, pci: "0000:{bus}:00.0", netdev: enp{name}s0, '
        f"model: ConnectX-5, speed_gbit_s: 100, numa: {numa}, link_gt_s: 8, link_width: 16, "
        f"lanes: 4, gpu_pci: [{own}], gpu_path: PIX}}"
    )


def test_a_host_without_cards_gets_them_in_pci_order(tmp_path: Path, look: HostLook) -> None:
    before = HEAD + GPU01 + TAIL
    report, after = run(tmp_path, before, look)
    assert report.exit_code == 3
    assert added(before, after) == [
        "    gpus: 8",
        "    nics:",
        card(0, "05", 5, 0, "06", "07"),
        card(1, "0c", 12, 0, "08", "09"),
        card(2, "84", 132, 1, "86", "87"),
        card(3, "8b", 139, 1, "88", "89"),
    ]


def test_the_second_run_adds_nothing(tmp_path: Path, look: HostLook) -> None:
    _, first = run(tmp_path, HEAD + GPU01 + TAIL, look)
    report, second = run(tmp_path, first, look)
    assert (report.exit_code, second) == (0, first)
    assert "nothing to add" in render_report(report)


def test_what_the_user_wrote_stays_and_is_told(tmp_path: Path, look: HostLook) -> None:
    before = HEAD + GPU01 + BLOCK + TAIL
    report, after = run(tmp_path, before, look)
    lines = added(before, after)
    assert lines[0] == "        netdev: enp5s0"
    assert "        gpu_path: PIX" in lines
    assert sum(line.startswith("      - ") for line in lines) == 3
    assert "      - rail: rail-0" in lines
    assert '        pci: "0000:0c:00.0"' in lines
    text = render_report(report)
    line = (
        before.splitlines().index("        numa: 1           # as the label on the case says") + 1
    )
    assert f"site.yaml:{line}  hosts[0].nics[0].numa = 1, found 0" in text
    again, last = run(tmp_path, after, look)
    assert last == after
    assert again.exit_code == 3  # the label on the case is still wrong
    assert [each.where[0].value for each in again.found[0].proposal.differences] == ["1"]


def test_a_degraded_link_is_a_note_and_no_rule(tmp_path: Path, look: HostLook) -> None:
    slow = replace(look.cards[0], link=LinkFact(2.5, 8))
    report, after = run(tmp_path, HEAD + GPU01 + TAIL, replace(look, cards=(slow, *look.cards[1:])))
    assert "link_gt_s: 8, link_width: 16" in after
    notes = " ".join(report.found[0].proposal.notes)
    assert "runs with 8 PCIe lanes, and card and slot can 16" in notes
    assert "at 2.5 GT/s, and card and slot can 8" in notes
    accepted = after.replace("link_gt_s: 8, link_width: 16", "link_gt_s: 2.5, link_width: 8", 1)
    again, last = run(tmp_path, accepted, replace(look, cards=(slow, *look.cards[1:])))
    assert (again.exit_code, last) == (0, accepted)


def test_an_unknown_numa_node_is_said_to_be_unknown(tmp_path: Path, look: HostLook) -> None:
    cards = tuple(replace(card, numa=None, path=("pci0000:c0", card.pci)) for card in look.cards)
    report, _ = run(tmp_path, HEAD + GPU01, replace(look, cards=cards))
    note = report.found[0].proposal.notes[0]
    assert note == (
        "GPUDirect RDMA of the GPU at 0000:06:00.0 may go from one processor to the other: the "
        "system tells no NUMA node of 0000:05:00.0"
    )


def test_a_virtual_root_port_is_no_limit_of_a_card(tmp_path: Path, look: HostLook) -> None:
    best = LinkFact(16, 16)
    card = replace(look.cards[0], link=best, card_link=best, slot_link=LinkFact(2.5, 1))
    report, after = run(tmp_path, HEAD + GPU01, replace(look, cards=(card,)))
    assert "link_gt_s: 16, link_width: 16" in after
    assert not [note for note in report.found[0].proposal.notes if "PCIe" in note]


def test_a_moved_card_is_told_with_its_new_place(tmp_path: Path, look: HostLook) -> None:
    text = HEAD + GPU01 + '    nics: [{rail: rail-0, pci: "0000:0d:00.0", netdev: enp12s0}]\n'
    report, after = run(tmp_path, text, look)
    assert ", enp12s0 is the card at 0000:0c:00.0" in render_report(report)
    assert '{rail: rail-0, pci: "0000:0d:00.0", netdev: enp12s0}, {rail: rail-1' in after


def test_an_alias_is_not_written_through(tmp_path: Path, look: HostLook) -> None:
    text = HEAD + GPU01 + '    nics: &cards\n      - {rail: rail-0, pci: "0000:05:00.0"}\n'
    text += SSH.replace("    ssh:", "  - name: gpu02\n    nics: *cards\n    ssh:")
    report, after = run(tmp_path, text, look, look)
    assert after == text
    assert "an anchor and aliases use it twice" in render_report(report)
    assert report.exit_code == 2


@pytest.mark.parametrize("text", ["hosts: [", "[]", "a: 1\na: 2\n"])
def test_a_file_that_holds_no_site(tmp_path: Path, text: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises((SpecError, UsageError)) as refused:
        read_site_file(path)
    assert "site.yaml" in str(refused.value)


def test_a_stack_file_is_written_below_its_key(tmp_path: Path, look: HostLook) -> None:
    site = HEAD + GPU01 + TAIL
    text = "encryptionsalt: v1:abc=\nconfig:\n  railyard:ssh_private_key:\n    secure: v1:xyz\n"
    text += "  railyard:cluster:\n" + "".join(f"    {line}\n" for line in site.splitlines())
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(text)
    file = read_site_file(path)
    assert file.stack == "dev"
    targets, _ = find_targets(file, (), None, "root")
    _, after = compare(file, targets, [look], [])
    assert "        gpus: 8" in added(text, after)


def test_crlf_and_a_missing_last_newline_are_kept(tmp_path: Path, look: HostLook) -> None:
    text = (HEAD + GPU01).rstrip("\n").replace("\n", "\r\n")
    _, after = run(tmp_path, text, look)
    assert after.startswith(text)
    assert after.count("\n") == after.count("\r\n")
    assert not after.endswith("\n")


def test_the_example_lacks_only_what_is_new_and_stays_clean(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "dgx-roce" / "site.yaml"
    seen = look_at(
        bare(nic(0, "0000:05:00.0", 0), nic(1, "0000:84:00.0", 1), gpus=8), tmp_path / "look"
    )
    path = tmp_path / "site.yaml"
    path.write_text(example.read_text())
    file = read_site_file(path)
    targets, errors = find_targets(file, ("gpu01", "gpu02"), None, "root")
    report, after = compare(file, targets, [seen, seen], errors)
    assert [each.proposal.differences for each in report.found] == [(), ()]
    assert after.count("link_width: 16") == 4
    path.write_text(after)
    checked = load_checked_site(path)
    assert [problem.rule for problem in checked.problems] == []
    assert checked.spec is not None
    assert checked.spec.hosts[1].nics[0].gpu_pci[0] == "0000:06:00.0"


FIELDS = ("netdev", "model", "speed_gbit_s", "numa", "link_gt_s", "link_width", "lanes")
VALUES = {
    "netdev": "eth9", "model": "ConnectX-7", "speed_gbit_s": 25, "numa": 1, "link_gt_s": 16,
    "link_width": 4, "lanes": 1,
}  # fmt: skip


COMMENTS = st.sampled_from(["", "  # a comment", "   # }, ] : {"])


@st.composite
def written_cards(draw: st.DrawFn) -> list[dict[str, object]]:
    """Some of the cards, with any of their keys, right or wrong."""
    cards: list[dict[str, object]] = []
    for number, bus in enumerate(["05", "0c", "84", "8b"][: draw(st.integers(1, 4))]):
        keys = draw(st.lists(st.sampled_from(FIELDS), unique=True))
        place: dict[str, object] = {"rail": f"rail-{number}", "pci": f'"0000:{bus}:00.0"'}
        cards.append(place | {key: VALUES[key] for key in keys})
    return cards


@st.composite
def block_lines(draw: st.DrawFn) -> list[str]:
    lines = ["    nics:" + draw(COMMENTS)]
    for each in draw(written_cards()):
        for at, (key, value) in enumerate(each.items()):
            lines.append(f"      {'  ' if at else '- '}{key}: {value}{draw(COMMENTS)}")
        if draw(st.booleans()):
            lines.append("        # between")
    return lines


@st.composite
def flow_lines(draw: st.DrawFn) -> list[str]:
    cards = draw(written_cards())
    flows = ["{" + ", ".join(f"{k}: {v}" for k, v in each.items()) + "}" for each in cards]
    if draw(st.booleans()):
        return [f"    nics: [{', '.join(flows)}]{draw(COMMENTS)}"]
    return [f"    nics:{draw(COMMENTS)}", *(f"    - {each}{draw(COMMENTS)}" for each in flows)]


@st.composite
def files(draw: st.DrawFn) -> str:
    """A host whose cards are written in any style, with comments anywhere."""
    bare_lines = st.sampled_from([[], ["    nics: []"], ["    nics: []  # none yet"]])
    lines = draw(st.one_of(block_lines(), flow_lines(), bare_lines))
    gpus = draw(st.sampled_from([[], ["    gpus: 8  # all"], ["    gpus: 4"]]))
    lines = [*gpus, *lines] if draw(st.booleans()) else [*lines, *gpus]
    return HEAD + GPU01 + "".join(f"{line}\n" for line in lines) + draw(st.sampled_from([TAIL, ""]))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(text=files())
def test_any_file_keeps_its_values_and_comments_and_is_still_the_second_time(
    tmp_path: Path, look: HostLook, text: str
) -> None:
    report, first = run(tmp_path, text, look)
    assert report.errors == ()
    before, after = (parse_yaml(each, "site.yaml").value for each in (text, first))
    assert contains(after, before)
    for comment in re.findall(r"# .*", text):
        assert first.count(comment) == text.count(comment)
    again, second = run(tmp_path, first, look)
    assert second == first
    differ = [each.where[0].path for each in report.found[0].proposal.differences]
    assert [each.where[0].path for each in again.found[0].proposal.differences] == differ
    assert run(tmp_path, text, look)[1] == first


def contains(after: Json, before: Json) -> bool:
    """Whether all of `before` is still in `after`, value by value and in its order."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in after if key in before]
        return keys == list(before) and all(contains(after[key], before[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(after) >= len(before) and all(map(contains, after, before))
    return after == before


def test_the_order_of_what_was_seen_does_not_matter(tmp_path: Path, look: HostLook) -> None:
    _, one = run(tmp_path, HEAD + GPU01, look)
    cards: tuple[CardFact, ...] = tuple(sorted(look.cards, key=lambda card: card.pci))
    _, other = run(tmp_path, HEAD + GPU01, replace(look, cards=cards))
    assert one == other


def test_the_site_that_a_stack_names_is_read_and_written(tmp_path: Path, look: HostLook) -> None:
    site, stack = tmp_path / "site.yaml", tmp_path / "Pulumi.dev.yaml"
    site.write_text(HEAD + GPU01 + TAIL)
    stack.write_text("config:\n  railyard:site: site.yaml\n")
    file = read_site_file(stack)
    assert (file.path.resolve(), file.stack, file.text) == (site, "dev", site.read_text())
    targets, _ = find_targets(file, (), None, "root")
    _, after = compare(file, targets, [look], [])
    assert "    gpus: 8" in added(site.read_text(), after)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("gone.yaml", "does not exist"),
        ("../site.yaml", "leads out of the project"),
        ("Pulumi.dev.yaml", "the file of a stack itself"),
    ],
)
def test_a_stack_that_names_no_site_is_refused(tmp_path: Path, written: str, words: str) -> None:
    stack = tmp_path / "Pulumi.dev.yaml"
    stack.write_text(f"config:\n  railyard:site: {written}\n")
    with pytest.raises(SpecError, match=words) as refused:
        read_site_file(stack)
    assert "Pulumi.dev.yaml" in str(refused.value)
    assert "fix" in str(refused.value)


SHORT = f"""\
host_templates:
  gpu:
    role: worker
{SSH.replace("      address: 192.168.2.11   # the console's", "      port: 22")}"""


def test_nothing_is_added_to_what_hosts_share(tmp_path: Path, look: HostLook) -> None:
    hosts = 'hosts:\n  - {name: "gpu[01-02]", template: gpu, ssh: {address: "192.168.2.[11-12]"}}\n'
    before = f"{HEAD}{SHORT}{hosts}{TAIL}"
    report, after = run(tmp_path, before, look, asked=("gpu02",))
    line = 1 + before[: before.index('  - {name: "gpu[01-02]"')].count("\n")
    assert after == before
    [error] = report.errors
    assert f"site.yaml:{line}: gpu02 comes from a template or a range" in str(error)
    assert "write gpus, nics into the template, or into `each` for gpu02" in str(error)


def test_a_host_after_a_range_gets_its_own_cards(tmp_path: Path, look: HostLook) -> None:
    ranges = 'hosts:\n  - {name: "gpu[02-09]", template: gpu, ssh: {address: "10.0.0.[2-9]"}}\n'
    before = f"{HEAD}{SHORT}{ranges}{GPU01.removeprefix('hosts:')[1:]}{TAIL}"
    report, after = run(tmp_path, before, look, asked=("gpu01",))
    assert report.errors == ()
    assert added(before, after)[:2] == ["    gpus: 8", "    nics:"]
