"""Flower's side of a client; a module of its own, so that each of ray's processes imports it, and makes data, once."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from work import LR, WEIGHT_DECAY, WORKS

torch.set_num_threads(1)

app = ClientApp()


@cache
def data(work: str) -> tuple[torch.Tensor, torch.Tensor]:
    return WORKS[work].data()


@cache
def network(work: str) -> nn.Module:
    return WORKS[work].model()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received network for one epoch on the client's examples, and send it back."""
    work = str(message.content["config"]["work"])
    inputs, targets = (part[int(context.node_config["partition-id"])] for part in data(work))
    model = network(work)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), LR, weight_decay=WEIGHT_DECAY)
    for indices in torch.randperm(len(targets)).split(WORKS[work].batch_size):
        optimiser.zero_grad()
        F.cross_entropy(model(inputs[indices]), targets[indices]).backward()
        optimiser.step()
    reply = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(targets)})}
    return Message(content=RecordDict(reply), reply_to=message)
