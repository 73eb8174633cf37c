"""The entry points of the installed commands; `python -m railyard_rdma` is `railyard`."""

from __future__ import annotations


def railyard() -> None:
    """Run `railyard`."""
    from components.cli.main import main  # noqa: PLC0415 - each program imports its own commands

    main()


def railyard_judge() -> None:
    """Run `railyard-judge`, which needs no extra."""
    from components.cli.judge import main  # noqa: PLC0415 - the same

    main()


def component_package() -> None:
    """Serve the component `Site` to programs in other languages; the engine starts this."""
    from stacks.site_host import main  # noqa: PLC0415 - the same

    main()
