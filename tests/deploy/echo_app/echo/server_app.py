"""The server's part."""

import json
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
MEGABYTE = bytes(range(256)) * 4096
BOUND = 500


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Ask every node once, and write what they answer."""
    end = time.monotonic() + BOUND
    nodes = sorted(grid.get_node_ids())
    assert len(nodes) == context.run_config["nodes"]
    sent = MEGABYTE * int(context.run_config["megabytes"])
    content = RecordDict({"sent": ConfigRecord({"bytes": sent})})
    waiting = set(grid.push_messages([Message(content, node, MessageType.QUERY) for node in nodes]))
    answers = []
    while waiting and time.monotonic() < end:
        for reply in grid.pull_messages(list(waiting)):
            waiting.discard(reply.metadata.reply_to_message_id)
            told = reply.content["told"]
            assert told["back"] == sent
            answers.append(told["socket"])
        time.sleep(0.1)
    Path(str(context.run_config["out"])).write_text(json.dumps(sorted(answers)))
