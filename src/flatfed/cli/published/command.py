"""`flatfed published`: the numbers of five papers, by paper, table, method, data set, partition and metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from flatfed.cli.options.groups import GroupedCommand, option
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

OF_VALUES = ("table", "partition", "metric")
"""What chooses values and no hyper-parameters."""


@click.command(cls=GroupedCommand, short_help="Look up what papers published.")
@option("--paper", "Of one paper: fedgloss, fedsam, fedwmsam, fedvssam or fedgf.", metavar="PAPER")
@option("--table", "Of one table: 3, 'Table 3', 'text Sec. 5.1'.", metavar="TABLE")
@option("--method", "Of one method, spelled as everywhere: feddyn+sam, fedasam+swa.", metavar="METHOD")
@option("--dataset", "On one data set: cifar10, idda.", metavar="DATASET")
@option("--partition", "Of one partition: dirichlet, 'dirichlet 0.05', pathological.", metavar="PARTITION")
@option("--metric", "Of one metric: accuracy_pct, lambda_max, rounds_to_target.", metavar="METRIC")
@option("--parameters as_parameters", "Show hyper-parameters in the place of values.", is_flag=True)
@option("--json as_json", "Print as JSON.", is_flag=True)
@option("--csv as_csv", "Print as CSV.", is_flag=True)
def published(as_parameters: bool, as_json: bool, as_csv: bool, **chosen: str | None) -> int:
    """Show what five papers published: values with their settings, or hyper-parameters.

    Without an option: the papers, and what there is of each. A ? marks a number whose row or column could not be known
    for certain. `flatfed show RUN --published` shows the values that belong to a run.
    """
    if as_json and as_csv:
        raise ConfigError("give --json or --csv, not both")
    if as_parameters:
        return _parameters(chosen, as_json, as_csv)
    return _values(chosen, as_json, as_csv)


def _values(chosen: dict[str, str | None], as_json: bool, as_csv: bool) -> int:
    from flatfed.cli.published.printing import print_papers, print_values
    from flatfed.published.lookup import lookup
    from flatfed.published.wording import value_record

    values = lookup(**chosen)
    if as_json or as_csv:
        return _print_records([value_record(value) for value in values], as_json)
    if not any(chosen.values()):
        print_papers()
        return 0
    print_values(values)
    return 0


def _parameters(chosen: dict[str, str | None], as_json: bool, as_csv: bool) -> int:
    from flatfed.cli.published.printing import print_parameters
    from flatfed.published.lookup import lookup_parameters
    from flatfed.published.wording import parameter_record

    for name in OF_VALUES:
        if chosen.pop(name) is not None:
            raise ConfigError(f"--{name} chooses values; leave it out with --parameters")
    entries = lookup_parameters(**chosen)
    if as_json or as_csv:
        return _print_records([parameter_record(entry) for entry in entries], as_json)
    print_parameters(entries)
    return 0


def _print_records(records: Sequence[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        echo(json.dumps(records, indent=1))
        return 0
    from flatfed.reports.tables.grid import columns_of, csv_text

    echo(csv_text(columns_of(records), records), nl=False)
    return 0
