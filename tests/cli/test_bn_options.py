"""Local layers, evaluation policies and schedules on the command line and in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import Outcome, fingerprint, flatfed, read_history, read_json, refused, without_time

FEW = ("--rounds", "2", "--clients", "20", "--per-round", "2", "--workers", "0", "--evaluate-every", "1")
NORMED = (*FEW, "--model", "cnn-small-bn")
PLAIN = (*FEW, "--model", "logreg")
STATISTICS, COUNTERS = 2 * (16 + 32), 2
AFFINE = 2 * (16 + 32)


def train(*options: object, out: str = "out") -> Outcome:
    return flatfed("run", "digits", *options, "--out", out)


def trained(*options: object, out: str = "out") -> dict[str, Any]:
    outcome = train(*options, out=out)
    assert outcome.code == 0, outcome.err
    assert "Warning" not in outcome.err
    return read_json(Path(out, "config.json"))


def rows(out: str = "out") -> list[dict[str, Any]]:
    return without_time(read_history(Path(out)))


# --- local layers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "entries"), [("bn-stats", 0), ("bn", AFFINE)])
def test_batchnorm_stays_on_the_clients(kind: str, entries: int) -> None:
    config = trained("fedavg", *NORMED, "--local-layers", kind)
    assert (config["task"]["local_layers"], config["settings"]["eval_stats"]) == (kind, "batch-stats")
    trained("fedavg", *NORMED, out="shared")
    less = 2 * (4 * (entries + STATISTICS) + 8 * COUNTERS)
    for ours, shared in zip(rows(), rows("shared"), strict=True):
        assert shared["bytes_down"] - ours["bytes_down"] == shared["bytes_up"] - ours["bytes_up"] == less


def test_without_the_option_all_is_shared() -> None:
    config = trained("fedavg", *NORMED)
    assert (config["task"]["local_layers"], config["settings"]["eval_stats"]) == (None, "running")


@pytest.mark.parametrize("kind", ["bn-stats", "bn"])
@pytest.mark.filterwarnings("default")
def test_a_model_without_batchnorm_is_a_warning_and_a_normal_result(kind: str) -> None:
    small = (*FEW, "--model", "cnn-small")
    outcome = train("fedsam", *small, "--local-layers", kind)
    assert outcome.code == 0, outcome.err
    said = [line for line in outcome.err.splitlines() if line.startswith("Warning")]
    assert len(said) == 1
    assert kind in said[0] and "no BatchNorm" in said[0]
    assert "finished" in outcome.out
    trained("fedsam", *small, out="plain")
    assert rows() == rows("plain")


@pytest.mark.parametrize("kind", ["bn-stats", "bn"])
def test_resuming_keeps_parts_and_policy(kind: str) -> None:
    options = (*NORMED[2:], "--local-layers", kind, "--eval-stats", "recalibrate")
    trained("fedavg", "--rounds", "3", *options, out="whole")
    trained("fedavg", "--rounds", "2", *options)
    outcome = flatfed("resume", "out", "--rounds", "3")
    assert outcome.code == 0, outcome.err
    assert rows() == rows("whole")
    assert read_json(Path("out/config.json"))["task"]["local_layers"] == kind


def test_runs_with_other_parts_are_distinguished() -> None:
    trained("fedavg", *NORMED, out="all")
    trained("fedavg", *NORMED, "--local-layers", "bn")
    labels = [entry["method"] for entry in flatfed("show", "all", "out", "--json").json["methods"]]
    assert "local_layers=None" in labels[0] and "local_layers=bn" in labels[1]


# --- evaluation -------------------------------------------------------------------------------------------


def test_policies_change_what_is_measured_and_nothing_else() -> None:
    measured = set()
    for policy in ("running", "batch-stats", "recalibrate"):
        config = trained("fedavg", *NORMED, "--eval-stats", policy, out=policy)
        assert config["settings"]["eval_stats"] == policy
        measured.add(rows(policy)[-1]["test_loss"])
        for a, b in zip(rows(policy), rows("running"), strict=True):
            assert all(a[name] == b[name] for name in a if not name.startswith("test_"))
    assert len(measured) == 3


# --- schedules ----------------------------------------------------------------------------------------------


def test_a_rate_along_half_a_cosine_wave() -> None:
    config = trained("fedavg", *PLAIN[2:], "--rounds", "6", "--lr", "cosine(0.1,0.01,5)")
    assert config["settings"]["lr"] == "cosine(0.1, 0.01, 5)"
    used = [row["lr"] for row in rows()]
    assert used == pytest.approx([0.1, 0.09140576, 0.06890576, 0.04109424, 0.01859424, 0.01], abs=5e-9)


@pytest.mark.parametrize("option", ["weight-decay", "momentum", "clip"])
def test_other_settings_of_the_local_step(option: str) -> None:
    config = trained("fedavg", *PLAIN, f"--{option}", "steps(0:0.1, 1:0.9)")
    assert config["settings"][option.replace("-", "_")] == "steps(0:0.1, 1:0.9)"
    trained("fedavg", *PLAIN, f"--{option}", "0.1", out="plain")
    assert rows()[0] == rows("plain")[0]
    assert rows()[1] != rows("plain")[1]


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("fedsam", "rho", "ramp(0,1,2)"),
        ("feddyn+sam", "client_opt.rho", "decay(1e-1,0.5)"),
        ("feddyn", "alpha", "steps( 0:0.1, 1:0.5 )"),
    ],
)
def test_parameters_on_the_command_line_and_in_a_file(method: str, name: str, value: str) -> None:
    typed = trained(method, *PLAIN, "--set", f"{name}={value}")["algorithm"]
    Path("file.yaml").write_text(f"set:\n  {name}: {value}\n")
    filed = trained(method, *PLAIN, "--config", "file.yaml", out="filed")["algorithm"]
    assert typed == filed
    shown = typed["client_opt"]["rho"] if "." in name else typed[name]
    assert shown.startswith(value.strip().partition("(")[0])
    assert rows() == rows("filed")


def test_everything_in_a_file() -> None:
    Path("file.yaml").write_text(
        "model: cnn-small-bn\nlocal-parts: bn-stats\neval-stats: recalibrate\nlr: cosine(0.1, 0.01, 4)\n"
        "momentum: ramp(0, 0.5, 2)\nset: {client_opt.rho: 'ramp(0.01, 0.1, 2)'}\n"
    )
    config = trained("fedavg+sam", *FEW, "--config", "file.yaml")
    assert (config["task"]["model"], config["task"]["local_layers"]) == ("cnn-small-bn", "bn-stats")
    settings = config["settings"]
    assert (settings["eval_stats"], settings["lr"]) == ("recalibrate", "cosine(0.1, 0.01, 4)")
    assert settings["momentum"] == "ramp(0.0, 0.5, 2)"
    assert config["algorithm"]["client_opt"] == {"id": "sam", "rho": "ramp(0.01, 0.1, 2)", "space": "trained"}


def test_a_comparison_and_its_resumption_with_schedules() -> None:
    methods = ("fedsam", "fedavg+sam")
    given = ("--lr", "decay(0.1,0.5)", "--set", "rho=ramp(0,0.1,2)", "--set", "client_opt.rho=ramp(0,0.1,2)")
    outcome = flatfed("compare", "digits", *methods, *PLAIN, *given, "--out", "two")
    assert outcome.code == 0, outcome.err
    first, second = (read_history(Path("two", method, "seed-0")) for method in methods)
    assert without_time(first) == without_time(second)
    assert [row["lr"] for row in first] == [0.1, 0.05]
    assert flatfed("resume", "two", "--workers", "0").code == 0


# --- refused ----------------------------------------------------------------------------------------------


BAD = [
    (["--local-layers", "nb"], ["--local-layers", "'nb'", "'bn'"]),
    (["--local-layers", "bn_stats"], ["--local-layers", "'bn_stats'", "'bn-stats'"]),
    (["--eval-stats", "batch"], ["--eval-stats", "'batch'", "'batch-stats'"]),
    (["--local-layers", "bn", "--eval-stats", "running"], ["stay on the clients", "batch-stats", "recalibrate"]),
    (["--lr", "cosine(0.1,0.01)"], ["--lr", "cosine(start, end, rounds)"]),
    (["--lr", "cosin(0.1,0.01,5)"], ["--lr", "'cosin'", "'cosine'"]),
    (["--lr", "ramp(a,b,c)"], ["--lr", "ramp(a,b,c)"]),
    (["--lr", "ramp(0.1,-0.1,5)"], ["--lr", "at least 0"]),
    (["--lr", "ramp(0.1,0.2,5"], ["--lr", "number"]),
    (["--lr", "steps(5:0.1)"], ["--lr", "round 0"]),
    (["--momentum", "ramp(0,1,5)"], ["--momentum", "less than 1"]),
    (["--weight-decay", "ramp(1,2)"], ["--weight-decay", "ramp(start, end, rounds)"]),
    (["--clip", "decay(1,2)"], ["--clip", "factor", "at most 1"]),
    (["--lr-decay", "ramp(1,0.5,5)"], ["--lr-decay", "ramp(1,0.5,5)", "not a number"]),
    (["--alpha", "ramp(1,0.5,5)"], ["--alpha", "ramp(1,0.5,5)", "not a number"]),
    (["--rounds", "ramp(1,5,5)"], ["--rounds", "ramp(1,5,5)"]),
    (["--set", "rho=ramp(-1,0.1,10)"], ["fedsam: rho", "at least 0"]),
    (["--set", "rho=ramp(1,2)"], ["fedsam: rho", "ramp(start, end, rounds)"]),
    (["--set", "rho=rmp(1,2,3)"], ["fedsam: rho", "'rmp'", "'ramp'"]),
    (["--set", "rho=steps(5:1)"], ["fedsam: rho", "round 0"]),
    (["--set", "rho=ramp(1;2;3)"], ["fedsam: rho", "ramp(1;2;3)"]),
    (["--set", "partition.alpha=ramp(1,2,3)"], ["alpha", "cannot change over the rounds"]),
]


@pytest.mark.parametrize(("options", "parts"), BAD, ids=[" ".join(options) for options, _ in BAD])
def test_bad_values_are_refused_in_one_sentence(options: list[str], parts: list[str], tmp_path: Path) -> None:
    refused(train("fedsam", *NORMED, *options), *parts)
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lr: cosine(0.1, 0.01)", ["lr", "cosine(start, end, rounds)"]),
        ("lr: [0.1, 0.01]", ["lr", "not a number"]),
        ("local-parts: nb", ["local-parts", "'nb'"]),
        ("eval-stats: none", ["eval-stats", "'none'"]),
        ("local-part: bn", ["local_part", "local_layers"]),
        ("set: {rho: 'ramp(1,2)'}", ["fedsam: rho", "ramp(start, end, rounds)"]),
        ("set: {rho: {start: 1}}", ["fedsam: rho", "number"]),
    ],
)
def test_bad_values_in_a_file_are_refused_in_one_sentence(text: str, parts: list[str]) -> None:
    Path("file.yaml").write_text(text + "\n")
    refused(train("fedsam", *NORMED, "--config", "file.yaml"), *parts)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("method", "setting", "parts"),
    [
        ("fedavg+swa", "average.lr_low=ramp(0.1,0.01,5)", ["swa: lr_low", "cannot change over the rounds"]),
        ("fedavg+wima", "average.window=ramp(1,5,5)", ["wima: window", "cannot change over the rounds"]),
        ("fedgf", "window=ramp(1,5,5)", ["fedgf: window", "cannot change over the rounds"]),
        ("scaffold", "option=ramp(1,5,5)", ["scaffold: option", "'I', 'II'"]),
        ("fedgloss", "admm=ramp(1,5,5)", ["fedgloss: admm", "true or false"]),
        ("fedwmsam", "alpha=ramp(0.1,0.5,5)", ["fedwmsam: alpha", "cannot change over the rounds"]),
        ("scaffold", "server_lr=ramp(1,0,1)", ["scaffold: server_lr", "greater than 0"]),
    ],
)
def test_what_cannot_follow_a_schedule_says_so(method: str, setting: str, parts: list[str]) -> None:
    refused(train(method, *PLAIN, "--set", setting), *parts)


def test_a_rate_that_reaches_zero_is_refused_where_formulas_divide_by_it() -> None:
    refused(train("scaffold", *PLAIN, "--lr", "ramp(0.1,0,1)"), "scaffold", "learning rate")
