"""The options of the commands that read runs: which weights, where the data lie, how many workers, and JSON."""

from __future__ import annotations

import click

from flatfed.cli.options.engine import engine_options
from flatfed.cli.options.groups import option

weights_option = option(
    "--weights",
    "Of a run with weight averaging: the averaged model, or the last global one.",
    click.Choice(["evaluated", "global"]),
    "evaluated",
    group="model",
)
data_dir_option = option("--data-dir", "Where the data sets lie, if no longer where they were.", group="data")
accept_data_option = option(
    "--accept-changed-data",
    "Use the data although they are not those that the run was made with.",
    is_flag=True,
    group="data",
)
workers_option = engine_options("Worker processes.  [default: as the run]")
trust_option = option(
    "--trust",
    "Import the code that the run or file names, wherever it comes from; only for those of people you trust.",
    is_flag=True,
    group="model",
)
json_option = option("--json as_json", "Print the results as JSON instead of a table.", is_flag=True, group="output")
