"""Values of a table beside runs of another size: the nearest is found, and every difference is a reason."""

from __future__ import annotations

from typing import Any

from flatfed.published.lookup import lookup
from flatfed.published.table_matching import TableMatch, fewer_seeds, nearest_in_table
from published.test_matching import CONFIG, changed


def accuracies(config: dict[str, Any]) -> list[TableMatch]:
    found = nearest_in_table(lookup("fedgloss", "table-3"), config)
    return [one for one in found if one.match.value.metric == "accuracy_pct"]


def test_the_run_of_the_paper() -> None:
    (one,) = accuracies(CONFIG)
    assert one.match.value.printed == "83.9 ± 0.4"
    assert one.match.differences == () and not one.is_on_other_data


def test_a_smaller_run_has_its_reasons() -> None:
    config = changed(settings__rounds=300, setting__model__name="cnn-small", setting__clients__count=20)
    (one,) = accuracies(config | {"sampler": {"id": "uniform", "count": 2}})
    assert one.match.differences[:4] == (
        "published with the network cnn, this run cnn-small",
        "published with 100 clients, this run 20",
        "published with 5 clients per round, this run 2",
        "published after 10000 rounds, this run 300",
    )


def test_other_partitions_and_methods_have_no_value() -> None:
    assert not accuracies(changed(setting__partition__alpha=7.0))
    assert not accuracies(changed(method="fedavg(server_lr=0.5)+swa"))


def test_another_variant_of_the_method_has_its_reason() -> None:
    config = changed(method="fedavg") | {"algorithm": {"id": "fedavg", "server_lr": 0.01, "client_opt": {"id": "sgd"}}}
    (one,) = accuracies(config)
    assert "this run with algorithm.server_lr 0.01" in one.match.differences
    (usual,) = accuracies(changed(method="fedavg") | {"algorithm": {"id": "fedavg", "server_lr": 1.0}})
    assert not [text for text in usual.match.differences if "server_lr" in text]


def test_fewer_seeds() -> None:
    assert fewer_seeds("fedgloss", 1) == "published over 3 seeds, here 1"
    assert fewer_seeds("fedgloss", 3) == ""
    assert fewer_seeds("fedsam", 1) == ""
