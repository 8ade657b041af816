"""FedAdamW: clients take AdamW's steps, from a second moment that the server has aggregated."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import torch
from torch import Tensor

from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.checking import Fraction, Momentum, Positive
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, per_tensor, scalar, vector
from flatfed.core.method.vectors import norm
from flatfed.core.model.layout import Segment


class FedAdamW(ServerRate, id="fedadamw"):
    """AdamW on the clients, whose second moment starts from the server's mean, one number per tensor.

        m = 0, v_k = v                                          at the start of a round; t = steps before it
        m   <- beta1 m + (1 - beta1) g
        v_k <- beta2 v_k + (1 - beta2) g^2                      in step i = 1 ... K_k
        q   =  m/(1 - beta1^i) / (sqrt(v_k/(1 - beta2^(t+i))) + eps) + alpha d
        d   <- -mean_S (w_k - w)/(K_k lr)                       zero at first
        v   <- mean_S v_k                                       of each tensor its mean, or every entry
        w   <- w + mean_S (w_k - w)
        t   <- t + mean_S K_k

    Weight decay is the setting's, which is decoupled here: it is not part of g. Liu et al., "FedAdamW: A
    communication-efficient optimizer with convergence and generalization guarantees for federated large models", 2025.
    """

    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    alpha: Fraction = 0.5
    eps: Positive = dataclasses.field(default=1e-8, kw_only=True)
    blocks: Literal["tensor", "entry"] = dataclasses.field(default="tensor", kw_only=True)
    client_opt: ClientOptimiser = dataclasses.field(default=SGD(), kw_only=True)

    uniform: ClassVar[bool] = True
    assumes_plain_steps: ClassVar[bool] = True

    def server_state(self) -> Slots:
        """Declare the last direction, the second moment, and how many local steps there were."""
        moment = per_tensor() if self.blocks == "tensor" else vector()
        return {"d": vector(), "v": moment, "steps": scalar()}

    def uploads(self) -> tuple[str, ...]:
        """Name the model and the second moment."""
        return ("w", "v")

    def uploads_per_tensor(self) -> tuple[str, ...]:
        """Name the second moment, unless every entry of it is sent."""
        return ("v",) if self.blocks == "tensor" else ()

    def broadcast(self, server: Server) -> Message:
        """Send the model, the second moment and the steps so far, and the last direction where it is used."""
        kept = server.kept
        message = Message(w=server.w, v=kept.v, steps=kept.steps)
        return message | Message(d=kept.d) if self.alpha else message

    def begin(self, client: Client) -> None:
        """Start both moments."""
        # Not `m` and `v`: the client optimiser has its own notes there.
        client.memo.first_moment = torch.zeros_like(client.w)
        client.memo.second_moment = client.received.v.clone() if self.blocks == "entry" else _filled(client)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Take both moments further; return AdamW's direction and a share of the last global one."""
        memo, step = client.memo, client.step + 1
        m: Tensor = memo.first_moment
        v: Tensor = memo.second_moment
        m.mul_(self.beta1).add_(gradient, alpha=1 - self.beta1)
        v.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        # `m` begins anew in every round, `v` goes on: each is corrected for the steps that it has seen.
        seen = client.received.scalars["steps"] + step
        root = (v / (1 - self.beta2**seen)).sqrt().add_(self.eps)
        q = (m / (1 - self.beta1**step)).div_(root)
        return q.add_(client.received.d, alpha=self.alpha) if self.alpha else q

    def finish(self, client: Client) -> Message:
        """Send the model and the second moment: its mean over each tensor, or every entry."""
        v = client.memo.second_moment
        return Message(w=client.w, v=v if self.blocks == "entry" else _means(client, v))

    def update(self, server: Server, replies: Replies) -> None:
        """Average the models and the second moments, and renew the direction."""
        kept = server.kept
        kept.d = replies.mean_gradient(server.lr)
        kept.v = replies.mean("v")
        kept.steps += round(sum(reply.steps for reply in replies) / len(replies))
        server.w = server.w + replies.mean_update()
        server.watch["direction_norm"] = norm(kept.d)


def _shared(client: Client) -> list[Segment]:
    """Return the tensors that are shared, which the second moment has a number for."""
    return [segment for segment in client.layout.parameters if not segment.local]


def _filled(client: Client) -> Tensor:
    """Return what was received for each tensor as a vector of the model's size; zero on local layers."""
    filled = torch.zeros_like(client.w)
    for number, segment in enumerate(_shared(client)):
        filled[segment.offset : segment.end] = client.received.v[number]
    return filled


def _means(client: Client, v: Tensor) -> Tensor:
    """Return the mean of each tensor; zero of one without entries."""
    sums = [v[segment.offset : segment.end].sum() / max(1, segment.size) for segment in _shared(client)]
    return torch.stack(sums)
