"""The algorithm contract: what a method says, and nothing about where or how it runs.

A round, as every method without an override runs it (`advance`, which the loop calls, plays it)::

    server:  message = broadcast(server)                      what goes down (personal(...) adds per client)
    client:  for each batch:
                 g = gradient(client)                         the fresh gradient (client optimiser)
                 q = direction(client, g)                     corrections, at the unperturbed weights
                 w <- w - lr * momentum(clip(q) + wd * w)     or another base optimiser's step
             reply = finish(client)                           what goes up, what is kept
    server:  update(server, replies)                          the next global model

State is declared (`server_state`, `client_state`, `records`; a client optimiser may add to what clients keep);
messages are the only way across. A method may override `round` for more than one exchange and `local` for other work
on the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from torch import Tensor, nn

from flatfed.core.configuration.base_optimiser import PREFIX, STEPS, BaseOptimiser
from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots, State, scalar, vector

if TYPE_CHECKING:
    from flatfed.core.method.client import Client
    from flatfed.core.method.server import Replies, Server


class Ask(Protocol):
    """Send a message to this round's clients and return their good replies, in client order."""

    def __call__(self, message: Message, expect: tuple[str, ...] | None = None) -> Replies:
        """`expect` names the vectors of a good reply (default: the method's `uploads`)."""
        ...


class ClientOptimiser(Config):
    """Family of client optimisers: each replaces the gradient `g(w)` of a local step and nothing else."""

    registry: ClassVar[Registry[ClientOptimiser]] = Registry("client optimiser")
    schedules: ClassVar[bool | frozenset[str]] = True

    def client_state(self) -> Slots:
        """Declare what each client keeps between its rounds, besides what the method declares."""
        return {}

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that it cannot be used with, before anything is trained."""

    def gradient(self, client: Client) -> Tensor:
        """Return the gradient to descend along, at `client.w` on the current batch."""
        raise NotImplementedError


class Algorithm(Config):
    """Family of federated methods; the base is the plain round of FedAvg with server rate 1.

    The instance is the configuration and is never changed by training.
    """

    registry: ClassVar[Registry[Algorithm]] = Registry("algorithm")
    schedules: ClassVar[bool | frozenset[str]] = True

    uniform: ClassVar[bool] = False
    """Clients count equally, whatever `weighting` says."""

    assumes_plain_steps: ClassVar[bool] = False
    """The formulas divide an update by `K * lr`: other steps than plain ones make them approximate."""

    assumes_sgd_steps: ClassVar[bool] = False
    """The formulas count the gradients in an update of SGD: other base optimisers make them approximate."""

    pooled: ClassVar[bool] = False
    """There is one client, which holds everyone's examples and takes part in every round, whatever `sampling` says."""

    upload_numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the scalars that a good reply holds."""

    def server_state(self) -> Slots:
        """Declare what the server keeps besides the model."""
        return {}

    def client_state(self) -> Slots:
        """Declare what each client keeps between its rounds."""
        return {}

    def records(self) -> Slots:
        """Declare what the server keeps about each client that has taken part."""
        return {}

    def uploads(self) -> tuple[str, ...]:
        """Name the vectors that a good reply holds."""
        return ("w",)

    def uploads_per_tensor(self) -> tuple[str, ...]:
        """Name those of the vectors that hold one number for each shared tensor; the others are model-sized."""
        return ()

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that the method, or its client optimiser, cannot train, before anything is trained."""
        optimiser: ClientOptimiser | None = getattr(self, "client_opt", None)
        if optimiser is not None:
            optimiser.check_model(model)

    # The server's side.

    def advance(self, server: Server, ask: Ask) -> None:
        """Play one round: what the loop calls. A base that acts on the step of all its methods overrides it."""
        self.round(server, ask)

    def round(self, server: Server, ask: Ask) -> None:
        """Run one round; change the server's state only after the last exchange."""
        self.update(server, ask(self.broadcast(server)))

    def broadcast(self, server: Server) -> Message:
        """Return what goes down to every client of the round; `w` is where clients start."""
        return Message(w=server.w)

    def personal(self, server: Server, client: int) -> Message:
        """Return what goes down to this client in addition."""
        return Message()

    def update(self, server: Server, replies: Replies) -> None:
        """Make the next state: `w <- w + sum_k p_k (w_k - w)`."""
        server.w = server.w + replies.mean_update()

    # What measurements ask for.

    def global_direction(self, server: Server) -> Tensor | None:
        """Return the server's estimate of the global gradient, on a gradient's scale, where the method keeps one."""
        return None

    def global_perturbation(self, server: Server, kept: State) -> Tensor | None:
        """Return the perturbation that stands for the global ascent, for a client that keeps this; None without one."""
        return None

    def perturbed_along(self, server: Server, client: int, kept: State, gradient: Tensor) -> Tensor:
        """Return the direction that this client perturbs along, with this gradient at the global model."""
        return gradient

    # The client's side.

    def local(self, client: Client) -> Message:
        """Do one exchange's work on a client and return what goes up."""
        self.begin(client)
        client.descend(self.gradient, self.direction)
        return self.finish(client)

    def begin(self, client: Client) -> None:
        """Prepare the local steps."""

    def gradient(self, client: Client) -> Tensor:
        """Return the fresh gradient of this step: the client optimiser's, or the plain one."""
        optimiser: ClientOptimiser | None = getattr(self, "client_opt", None)
        return client.gradient() if optimiser is None else optimiser.gradient(client)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        """Return the direction `q` of this step."""
        return gradient

    def finish(self, client: Client) -> Message:
        """Update what the client keeps and return what goes up."""
        return Message(w=client.w)


def client_slots(algorithm: Algorithm, base: BaseOptimiser) -> Slots:
    """Return all that a client keeps: what the method declares, its client optimiser and the base optimiser."""
    optimiser: ClientOptimiser | None = getattr(algorithm, "client_opt", None)
    slots = algorithm.client_state()
    if optimiser is not None:
        slots = _joined(algorithm.id, slots, optimiser.id, optimiser.client_state())
    return _joined(algorithm.id, slots, base.id, _base_slots(base))


def _base_slots(base: BaseOptimiser) -> Slots:
    kept = {f"{PREFIX}{name}": vector() for name in base.kept()}
    return kept | {STEPS: scalar()} if kept else {}


def _joined(owner: str, slots: Slots, other: str, added: Slots) -> Slots:
    shared = sorted(slots.keys() & added.keys())
    if shared:
        raise ConfigError(f"{owner} and {other} both keep {shared[0]!r} on the client; rename one")
    return slots | added


class Average(Config):
    """Family of averages over global models: they change what is evaluated, not the trajectory."""

    registry: ClassVar[Registry[Average]] = Registry("average")

    def state(self, rounds: int) -> Slots:
        """Declare what the average keeps in a run of n rounds."""
        raise NotImplementedError

    def first(self, rounds: int) -> int:
        """Return the first round in which the average matters: before it, a run is the same without it."""
        return 0

    def averages(self, rounds: int) -> bool:
        """Say whether any model enters the average in a run of this length."""
        return True

    def lr(self, lr: float, round: int, rounds: int) -> float:
        """Return the learning rate of a round, given the decayed one."""
        return lr

    def capture(self, kept: State, before: Tensor, after: Tensor, round: int, rounds: int) -> None:
        """See the global model before and after a round."""
        raise NotImplementedError

    def evaluated(self, kept: State, w: Tensor) -> Tensor:
        """Return the model that is evaluated, given the current global one."""
        raise NotImplementedError


Gradient = Callable[["Client"], Tensor]
Direction = Callable[["Client", Tensor], Tensor]
