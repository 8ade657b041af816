"""A site's part."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Tell where the site's socket is, and how many bytes came."""
    sent = message.content["sent"]["bytes"]
    told = ConfigRecord({"socket": str(context.node_config["site-socket"]), "bytes": len(sent), "back": sent})
    return Message(RecordDict({"told": told}), reply_to=message)
