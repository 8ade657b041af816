"""The thin app at a node: it passes bytes on to the site's own process, and knows nothing of what is in them.

Flower starts it anew for every message, so it imports neither torch nor the rest of flatfed.
"""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from flatfed.flower.records import from_records, to_records
from flatfed.frames import FrameError, ask_socket

SOCKET = "site-socket"
"""The key of the node's configuration that holds the path of the site's socket."""
LARGEST = 1 << 33

app = ClientApp()


@app.query()
def pass_on(message: Message, context: Context) -> Message:
    """Give the bytes to the site, and its answer to the server."""
    socket = str(context.node_config.get(SOCKET, ""))
    if not socket:
        raise ValueError(f"this node has no {SOCKET}: start the SuperNode with --node-config '{SOCKET}=\"/path\"'")
    try:
        answer = ask_socket(socket, from_records(message.content), message.metadata.ttl, LARGEST)
    except (OSError, FrameError) as error:
        raise RuntimeError(f"the site at {socket} does not answer ({error}); is `flatfed site run` there?") from None
    return Message(to_records(answer), reply_to=message)
