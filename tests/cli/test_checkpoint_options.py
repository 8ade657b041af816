"""Options about checkpoints and replies, on the command line and in a file."""

from __future__ import annotations

from pathlib import Path

from cli.command import SMALL, flatfed, read_json, refused


def checkpoints(run: str) -> list[int]:
    return sorted(int(path.name.removeprefix("round-")) for path in Path(run, "checkpoints").glob("round-*"))


def test_kept_checkpoints_and_settings_of_replies_reach_the_run() -> None:
    given = ("--min-replies", 2, "--retries", 4, "--max-update-norm", 50, "--keep-checkpoints", "1")
    outcome = flatfed("run", "digits", "fedavg", *SMALL, *given, "--checkpoint-every", 1, "--out", "run")
    assert outcome.code == 0, outcome.err
    config = read_json(Path("run/config.json"))
    assert {name: config["settings"][name] for name in ("min_replies", "retries", "max_update_norm")} == {
        "min_replies": 2,
        "retries": 4,
        "max_update_norm": 50.0,
    }
    assert (config["checkpoint_every"], config["keep_checkpoints"]) == (1, [1])
    assert checkpoints("run") == [1, 2, 3]
    outcome = flatfed("flatness", "run/checkpoints/round-000001", "--measure", "loss", "--samples", 50)
    assert outcome.code == 0, outcome.err


def test_a_file_may_hold_them() -> None:
    Path("options.yaml").write_text("min-replies: 2\nretries: 0\ncheckpoint_every: 1\nkeep-checkpoints: [0, 1]\n")
    assert flatfed("run", "digits", "fedavg", *SMALL, "--config", "options.yaml", "--out", "run").code == 0
    config = read_json(Path("run/config.json"))
    assert (config["settings"]["min_replies"], config["settings"]["retries"]) == (2, 0)
    assert checkpoints("run") == [0, 1, 2, 3]
    Path("options.yaml").write_text("keep_checkpoints: 1\n")
    assert flatfed("run", "digits", "fedavg", *SMALL, "--config", "options.yaml", "--out", "one").code == 0
    assert checkpoints("one") == [1, 2, 3]


def test_a_comparison_keeps_them_in_every_run() -> None:
    given = ("--keep-checkpoints", "2", "--seeds", "0,1", "--out", "out")
    assert flatfed("compare", "digits", "fedavg", "fedsam", *SMALL, *given).code == 0
    runs = [f"out/{method}/seed-{seed}" for method in ("fedavg", "fedsam") for seed in (0, 1)]
    assert [checkpoints(run) for run in runs] == [[2, 3]] * 4
    assert read_json(Path("out/comparison.json"))["about"]["keep_checkpoints"] == [2]
    assert flatfed("resume", "out").code == 0


def test_bad_values_are_reported_in_a_sentence() -> None:
    for values, parts in {
        ("--keep-checkpoints", "4"): ("--keep-checkpoints", "4 is beyond the 3 rounds of the run"),
        ("--keep-checkpoints", "a"): ("--keep-checkpoints", "'a' is not a list of whole numbers"),
        ("--keep-checkpoints", "-1"): ("--keep-checkpoints", "'-1' holds -1; each number must be at least 0"),
        ("--checkpoint-every", "0"): ("--checkpoint-every", "at least 1"),
        ("--min-replies", "0"): ("--min-replies", "at least 1"),
        ("--min-replies", "3"): ("min_replies=3 can never be met with 2",),
        ("--retries", "-1"): ("--retries", "at least 0"),
        ("--max-update-norm", "0"): ("--max-update-norm must be",),
    }.items():
        refused(flatfed("run", "digits", "fedavg", *SMALL, *values, "--out", "run"), *parts)
    refused(flatfed("compare", "digits", "fedavg", *SMALL, "--keep-checkpoints", "9", "--out", "out"), "9 is beyond")
    assert not Path("run").exists()
