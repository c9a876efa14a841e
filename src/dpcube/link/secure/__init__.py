"""Secure two-party computation of the match bits of candidate pairs; the two processes reveal nothing else.

`credentials.py` authenticates the peer, `channel.py` exchanges framed messages with it, `agreement.py` compares what
both must share before they start, `terms.py` encodes a side's input, and `engine.py` runs the computation in a child
process (`worker.py`, in the engine's own environment: `environment.py`). Programs that only test equality run as
private set intersection (`intersection.py`). `step.py` is the entry point. docs/explanation/linkage-protocol.md lists
what each message reveals.
"""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.link.secure.channel import Channel, await_peer, open_listener, reach_peer
    from dpcube.link.secure.credentials import Credentials, certificates, shared_key, write_shared_key
    from dpcube.link.secure.environment import engine_python, install_engine
    from dpcube.link.secure.step import secure_matches

__all__ = [
    "Channel",
    "Credentials",
    "await_peer",
    "certificates",
    "engine_python",
    "install_engine",
    "open_listener",
    "reach_peer",
    "secure_matches",
    "shared_key",
    "write_shared_key",
]

__getattr__ = lazily(
    __name__,
    {
        "Channel": "channel",
        "Credentials": "credentials",
        "await_peer": "channel",
        "certificates": "credentials",
        "engine_python": "environment",
        "install_engine": "environment",
        "open_listener": "channel",
        "reach_peer": "channel",
        "secure_matches": "step",
        "shared_key": "credentials",
        "write_shared_key": "credentials",
    },
)
