"""The options that `run` and `compare` share."""

from __future__ import annotations

from pathlib import Path

import click

from flatfed.cli.options.groups import engine_options, option, together, track_option, trust_option
from flatfed.cli.options.settings import run_option, settings_options
from flatfed.cli.options.values import read_config

alpha_option = run_option(
    "alpha",
    "Dirichlet concentration, in total over the classes (per class: --beta). 0.1 gives 1.6 of CIFAR-10's 10 classes "
    "per client, 0 one.  [default: the partition's]",
)
beta_option = run_option(
    "beta",
    "Dirichlet concentration per class, as in FedSMOO, FedWMSAM, FedVSSAM and most papers: 0.1 gives 5.6 of CIFAR-10's "
    "10 classes per client. Selects the partition dirichlet-per-class.",
    group="data",
)

PARAMETERS = """\b
Parameters by name (--set NAME=VALUE):
  rho=0.1                 of the method
  client_opt.rho=0.1      of its client optimiser
  average.cycle=5         of the average
  partition.beta=0.3      of the partition
  model.stem=cifar        of the model
  data.path=FOLDER        of the data set
  fedgloss:beta=100       of one of several methods
A real number may follow a schedule over the rounds:
  ramp(START,END,ROUNDS)           cosine(START,END,ROUNDS)
  poly(START,END,ROUNDS,POWER)     decay(START,FACTOR)
  cycle(HIGH,LOW,PERIOD)           cyclefrom(START,HIGH,LOW,PERIOD)
  steps(0:X,100:Y)
A file (--config) holds the same options in YAML:
  rounds: 200
  set: {rho: 0.1, client_opt.rho: 0.05}
"""
"""What stands at the end of the help."""

COMMON = [
    option(
        "--config",
        "YAML file of options. Command line > file > default.",
        click.Path(path_type=Path, dir_okay=False),
        # Eager: a file must be read before other options look for their defaults.
        is_eager=True,
        callback=read_config,
    ),
    run_option("clients", "Clients in total.  [default: 100, or the data's own]"),
    run_option(
        "per_round",
        "Clients per round.  [default: 5, or all where there are fewer]",
    ),
    alpha_option,
    option(
        "--set settings",
        "A parameter by name, such as rho=0.1: see the end.",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    engine_options("Worker processes; 0: this one. Results stay the same.", "auto"),
    option("--out", "Directory to write.  [default: a new one in runs/]", click.Path(path_type=Path)),
]

DATA = [
    run_option("data_dir", "Where data sets lie.  [default: $FLATFED_DATA, or ~/.cache/flatfed/data]", group="data"),
    run_option("partition", "How data is divided: flatfed list partitions.  [default: the data set's]", group="data"),
    beta_option,
    run_option(
        "partition_seed",
        "Seed of the partition alone: runs with other seeds then have the same one, as with the split files of FedSAM, "
        "FedGloSS and FedGF.  [default: the seed, as in FedWMSAM's code: another partition for each]",
        group="data",
    ),
    run_option(
        "validation",
        "Hold out this share of the clients' training examples as a further test set, `validation`: to choose "
        "parameters, models and rounds without the test set.  [default: none]",
        group="data",
    ),
    run_option(
        "validation_split",
        "Hold out a share of each client's examples (`client`), or of all clients' together (`global`).",
        group="data",
    ),
    run_option(
        "augment",
        "Augmentation: the data set's, `none`, or by name, such as crop-flip,cutout(8): flatfed list augmentations.",
        default="default",
        # Click needs both for an option whose value may be left out.
        is_flag=False,
        flag_value="default",
        group="data",
    ),
    run_option("no_augment", "The same as --augment none.", group="data"),
]

MODEL = [
    run_option(
        "model",
        "Model: flatfed list models, package.module:Class, or hf:FOLDER of transformers.  [default: the data set's]",
        group="model",
    ),
    run_option("weights", "Weights to start from: a safetensors file.  [default: random, by the seed]", group="model"),
    run_option(
        "new_head",
        "With --weights: all but the head, which starts random, by the seed.",
        group="model",
    ),
    run_option(
        "local_layers",
        "BatchNorm parts that stay on the clients: the statistics (SiLoBN) or all (FedBN).  [default: none]",
        group="model",
    ),
    trust_option,
]

TRAINING = [
    run_option(
        "bernoulli",
        "Instead of --per-round: each client joins with this probability.",
        group="training",
    ),
    run_option(
        "sampling",
        "Instead of --per-round: a sampler as it is written, such as bernoulli(0.1) or package.module:Mine(p=0.1).",
        metavar="SAMPLER",
        group="training",
    ),
]

EVALUATION = [
    run_option(
        "metrics",
        "What a test measures besides the loss: package.module:Class, or one of an installed package.  [default: the "
        "data set's]",
        metavar="NAME",
        group="evaluation",
    ),
    run_option(
        "watch",
        "Measure while it trains, without changing the result: lambda_max:50,lpf:100 (every 50 and 100 rounds). See "
        "flatfed list measurements.",
        metavar="NAME:N,...",
        group="evaluation",
    ),
    run_option(
        "watch_data",
        "Take --watch's losses over `train` (all clients' examples) or a test set.",
        group="evaluation",
    ),
    run_option(
        "watch_samples",
        "Over at most N examples, drawn once, or `all`; compare --flatness too.",
        group="evaluation",
    ),
]

OUTPUT = [
    run_option(
        "checkpoint_every",
        "Save after every N rounds, and at the end.  [default: about every 30 seconds]",
        group="output",
    ),
    run_option(
        "keep_checkpoints",
        "Write a checkpoint after exactly N rounds and never remove it, besides the last two: 400,800. See `flatfed "
        "branch`.  [default: none]",
        group="output",
    ),
    track_option("none"),
    option(
        "--dry-run", "Say what would be trained, with all settings, and train nothing.", is_flag=True, group="output"
    ),
    option("--json as_json", "Print the results as JSON instead of a table.", is_flag=True, group="output"),
]


common_options = together(*COMMON, *settings_options(), *DATA, *MODEL, *TRAINING, *EVALUATION, *OUTPUT)
"""The options that `run` and `compare` share."""
