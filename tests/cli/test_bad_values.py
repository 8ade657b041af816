"""Values out of range and combinations that make no sense: refused in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import SMALL, Outcome, fingerprint, flatfed, refused

# Options, and what the sentence must hold.
VALUES = [
    ("--lr -1", ["lr", "-1"]),
    ("--lr nan", ["lr", "nan"]),
    ("--lr inf", ["lr", "inf"]),
    ("--lr abc", ["lr", "abc"]),
    ("--lr-decay 0", ["lr", "decay", "greater than 0"]),
    ("--lr-decay 1.5", ["lr", "decay", "at most 1"]),
    ("--rounds 0", ["--rounds", "0"]),
    ("--rounds 1.5", ["--rounds", "1.5"]),
    ("--rounds many", ["--rounds", "many"]),
    ("--clients 0", ["--clients", "0"]),
    ("--clients 1438", ["1438 clients", "1437 samples"]),
    ("--per-round 6", ["6", "5 clients"]),
    ("--per-round 0", ["--per-round", "0"]),
    ("--bernoulli 0", ["bernoulli", "greater than 0"]),
    ("--bernoulli 1.5", ["bernoulli", "at most 1"]),
    ("--bernoulli nan", ["bernoulli", "nan"]),
    ("--alpha -1", ["alpha", "at least 0", "-1"]),
    ("--alpha nan", ["alpha", "nan"]),
    ("--alpha inf", ["alpha", "inf"]),
    ("--alpha abc", ["--alpha", "abc"]),
    ("--alpha 1 --partition iid", ["--alpha", "'iid'"]),
    ("--alpha 1 --partition pathological", ["--alpha", "'pathological'", "classes_per_client"]),
    ("--partition pathological --set partition.classes_per_client=11", ["classes_per_client", "11", "10 classes"]),
    ("--batch-size 0", ["--batch-size", "'0'", "'full'"]),
    ("--batch-size -3", ["--batch-size", "'-3'"]),
    ("--batch-size 2.5", ["--batch-size", "'2.5'"]),
    ("--batch-size some", ["--batch-size", "'some'", "'full'"]),
    ("--workers -1", ["--workers", "'-1'"]),
    ("--workers many", ["--workers", "'many'", "'auto'"]),
    ("--local-epochs 0", ["--local-epochs", "0"]),
    ("--weight-decay -1", ["weight", "decay", "-1"]),
    ("--weight-decay nan", ["weight", "decay", "nan"]),
    ("--momentum 1", ["momentum", "less than 1"]),
    ("--momentum -0.1", ["momentum", "at least 0"]),
    ("--clip 0", ["clip", "greater than 0"]),
    ("--clip nan", ["clip", "nan"]),
    ("--evaluate-every 0", ["--evaluate-every", "0"]),
    ("--evaluate-last -1", ["--evaluate-last", "-1"]),
]
SEEDS = [
    ("0,0", ["--seeds", "0,0", "twice"]),
    ("a,b", ["--seeds", "a,b", "0,1,2"]),
    ("0,", ["--seeds", "0,"]),
    ("0-2", ["--seeds", "0-2"]),
    ("-1", ["--seeds", "-1", "at least 0"]),
    ("0,-3,2", ["--seeds", "holds -3", "at least 0"]),
    ("", ["--seeds"]),
]


def train(command: str, *options: str) -> Outcome:
    kept = [
        text
        for name, value in zip(SMALL[::2], SMALL[1::2], strict=True)
        if name not in options
        for text in (name, value)
    ]
    return flatfed(command, "digits", "fedavg", *kept, *options, "--out", "out")


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(("options", "parts"), VALUES, ids=[options for options, _ in VALUES])
def test_values(command: str, options: str, parts: list[str], tmp_path: Path) -> None:
    refused(train(command, *options.split()), *parts)
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(
    "options",
    ["--lr -1", "--lr-decay 0", "--weight-decay -1", "--momentum 1", "--clip 0", "--alpha -1", "--bernoulli 2"],
)
def test_an_option_is_named_as_it_is_typed(options: str) -> None:
    outcome = train("run", *options.split())
    assert options.split()[0] in outcome.err
    assert "Settings" not in outcome.err


@pytest.mark.parametrize(("seeds", "parts"), SEEDS, ids=[f"seeds {seeds}" for seeds, _ in SEEDS])
def test_seeds(seeds: str, parts: list[str]) -> None:
    refused(train("compare", "--seeds", seeds), *parts)


def test_a_seed_must_be_a_whole_number() -> None:
    refused(train("run", "--seed", "x"), "--seed", "'x'")


def test_two_ways_to_sample_are_one_too_many() -> None:
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--bernoulli", "0.5"), "--bernoulli", "--per-round")


@pytest.mark.parametrize("value", ["many", "1.5"])
def test_a_number_is_called_a_number(value: str) -> None:
    assert "integer range" not in train("run", "--rounds", value).err
