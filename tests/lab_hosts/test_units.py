"""Reading and ordering of systemd units."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.units import (
    Unit,
    load_unit,
    normal_limit,
    order_units,
    parse_exec,
    parse_span,
    unit_environment,
)

ETC = "etc/systemd/system"


def write(root: Path, name: str, text: str) -> None:
    path = root / ETC / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_drop_ins_apply_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "a.service", "[Service]\nExecStart=/bin/one\nLimitMEMLOCK=64K\n")
    write(tmp_path, "a.service.d/20.conf", "[Service]\nExecStart=\nExecStart=/bin/two\n")
    write(tmp_path, "a.service.d/10.conf", "[Service]\nLimitMEMLOCK=infinity\n")
    unit = load_unit(tmp_path, "a.service")
    assert unit is not None
    assert unit.settings["ExecStart"] == ("/bin/two",)
    assert unit.memlock == "infinity"
    assert [path.rpartition("/")[2] for path in unit.drop_ins] == ["10.conf", "20.conf"]


def test_masked_and_missing_units(tmp_path: Path) -> None:
    (tmp_path / ETC).mkdir(parents=True)
    (tmp_path / ETC / "m.service").symlink_to("/dev/null")
    masked = load_unit(tmp_path, "m.service")
    assert masked is not None
    assert masked.last("LoadState") == "masked"
    assert load_unit(tmp_path, "none.service") is None


@pytest.mark.parametrize(
    ("line", "argv", "ignored"),
    [
        ("-/bin/false", ("/bin/false",), True),
        ("/bin/sh -c 'echo ${A} %n'", ("/bin/sh", "-c", "echo 1 2 u@x.service"), False),
        ("/bin/echo $A %i %H", ("/bin/echo", "1", "2", "x", "host"), False),
    ],
)
def test_exec_lines(line: str, argv: tuple[str, ...], ignored: bool) -> None:  # noqa: FBT001 - a case
    parsed = parse_exec(line, "u@x.service", "host", {"A": "1 2"})
    assert (parsed.argv, parsed.ignore_failure) == (argv, ignored)


def test_order_follows_after_and_before() -> None:
    units = [
        Unit("k3s.service", settings={"After": ("network.target",)}),
        Unit("a-late.service", settings={"After": ("k3s.service",)}),
        Unit("nics.service", settings={"Before": ("k3s.service",)}),
    ]
    names = [unit.name for unit in order_units(units)]
    assert names == ["nics.service", "k3s.service", "a-late.service"]


def test_a_cycle_is_broken() -> None:
    units = [
        Unit("a.service", settings={"After": ("b.service",)}),
        Unit("b.service", settings={"After": ("a.service",)}),
    ]
    assert {unit.name for unit in order_units(units)} == {"a.service", "b.service"}


def test_environment_files_win_and_may_be_optional(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# c\nA=2\nB='x y'\n")
    settings = {"Environment": ("A=1 C=3",), "EnvironmentFile": ("-/none", "/env")}
    env = unit_environment(Unit("u.service", settings=settings), tmp_path)
    assert env == {"A": "2", "B": "x y", "C": "3"}
    with pytest.raises(FileNotFoundError):
        unit_environment(Unit("u", settings={"EnvironmentFile": ("/none",)}), tmp_path)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("1min 30s", 90.0), ("100ms", 0.1)])
def test_time_spans(text: str, seconds: float) -> None:
    assert parse_span(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "limit"), [("64K", "65536"), ("1M:2M", "1048576"), ("infinity", "infinity")]
)
def test_limits(text: str, limit: str) -> None:
    assert normal_limit(text) == limit
