"""The lab's keys are the same everywhere and fit together."""

from __future__ import annotations

import asyncssh

from lab.keys import client_key, host_key


def test_host_key_is_known_for_all_time() -> None:
    # Committed stack files pin these keys: another value here breaks every one of them.
    pinned = "AAAAC3NzaC1lZDI1NTE5AAAAIC2CymnyexxOAhWPstUxP/Jtny62jZDcUrsta5Kv92+6"
    assert host_key("dev/gpu01").public_openssh == f"ssh-ed25519 {pinned}"
    assert host_key("dev/gpu02").public_openssh != host_key("dev/gpu01").public_openssh


def test_private_and_public_halves_fit() -> None:
    pair = client_key("dev")
    public = asyncssh.import_private_key(pair.private_openssh).export_public_key().decode()
    assert public.split()[:2] == pair.public_openssh.split()[:2]
