"""The secure step: the match bits of candidate pairs, computed by two processes that show each other nothing else.

`credentials.py` says who the peer is, `channel.py` carries framed messages (`frames.py`) to it, `agreement.py` is what
both compare before they start, `terms.py` what a side brings to the computation, `engine.py` runs it in a child process
(`worker.py`, in the engine's own environment: `environment.py`), whose link runs through the channel (`tunnel.py`).
`step.py` is the whole. What each message reveals: docs/linkage-protocol.md.
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
