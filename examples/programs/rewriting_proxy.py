"""A proxy that lets clients of one cluster see other topic names: python rewriting_proxy.py HOST:PORT PORT PREFIX"""

import sys
import threading

from kafkawire import visit
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from kafkawire.proxy import Proxy

RENAMED = (
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)


def prefixed(proxy: Proxy, prefix: str) -> None:
    """Clients see `orders` where the cluster has `PREFIXorders`, in requests and responses that name topics."""
    add = {visit.TOPIC_NAME: lambda name: prefix + name}
    strip = {visit.TOPIC_NAME: lambda name: name.removeprefix(prefix)}
    for kind in RENAMED:
        proxy.on_request(kind, lambda request: visit.rewrite(request, add))
        proxy.on_response(kind, lambda request, response: visit.rewrite(response, strip))


if __name__ == "__main__":
    bootstrap, port, prefix = sys.argv[1:]
    with Proxy(bootstrap, port=int(port)) as proxy:
        prefixed(proxy, prefix)
        print(f"listening on {proxy.address}", flush=True)
        threading.Event().wait()
