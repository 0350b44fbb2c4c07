"""Principals by their rights, and their responses (tried on 4.4.0): a row is a user of the `secure` broker.

The scene: `p-live` is open in p-orders-0 and p-plain-0; `p-hang-1` hangs in p-plain-0, where it never began; `p-hang-2`
and `p-own` exist. `p-marks` takes markers.
"""

from __future__ import annotations

import msgspec

from tests.client.real_cluster import (
    ALL,
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Acl,
)

ORDERS, PLAIN, MARKS, LOG = "p-orders", "p-plain", "p-marks", "__transaction_state"
LIVE, HANG, OWN = "p-live", "p-hang-1", "p-own"
ALL_IDS = frozenset({LIVE, HANG, "p-hang-2", OWN})
ALL_TOPICS = frozenset({ORDERS, PLAIN, MARKS, LOG})
BOTH = frozenset({ORDERS, PLAIN})
NOTHING: frozenset[str] = frozenset()

DENIED, NOT_FOUND = 53, 105
TOPIC_DENIED, NO_TOPIC = 29, 3

#: Verdicts on p-live in p-orders, in p-plain, and on p-hang-1; None: not seen.
CLEAR = ("live", "live", "partition_not_in_transaction")
UNKNOWN = "coverage_incomplete"
UNSEEN = (None, None, None)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A user with some rights, and what it may see and do.

    Attributes:
        ids: that are listed. `described`: topics in the description of p-live; None where it is refused.
        random_id, random_topic: the errors for what does not exist.
        topics: that are visible. `orders`, `plain`: the right that is missing for their producers.
        cluster: whether log directories and ACLs are shown. `log`: whether `__transaction_state` can be read.
        abort, init: the right that is missing for a marker in p-marks, and for InitProducerId of p-own.
        verdicts: as above.
    """

    name: str
    acls: tuple[Acl, ...] = ()
    ids: frozenset[str] = NOTHING
    described: frozenset[str] | None = None
    random_id: int = DENIED
    topics: frozenset[str] = NOTHING
    random_topic: int = TOPIC_DENIED
    orders: str | None = f"Describe on topic {ORDERS}"
    plain: str | None = f"Describe on topic {PLAIN}"
    cluster: bool = False
    log: bool = False
    abort: str | None = f"Describe on topic {MARKS}"
    init: str | None = f"Write on transactional id {OWN}"
    verdicts: tuple[str | None, str | None, str | None] = UNSEEN


def _ids(name: str = "*", operation: int = DESCRIBE, *, deny: bool = False, prefixed: bool = False) -> Acl:
    return Acl(TRANSACTIONAL_ID, name, operation, deny=deny, prefixed=prefixed)


def _topic(name: str = "*", operation: int = READ, *, deny: bool = False) -> Acl:
    return Acl(TOPIC, name, operation, deny=deny)


def _cluster(operation: int = DESCRIBE) -> Acl:
    return Acl(CLUSTER, "", operation)


_NO_MARKER = "Alter or ClusterAction on the cluster"
_HANGS = frozenset({HANG, "p-hang-2"})
_NO_READ = {"orders": f"Read on topic {ORDERS}", "plain": f"Read on topic {PLAIN}"}
_ALL_READ = {"orders": None, "plain": None, "topics": ALL_TOPICS, "random_topic": NO_TOPIC, "abort": _NO_MARKER}
_BOTH_READ = {"orders": None, "plain": None, "topics": BOTH}
_ALL_IDS = {"ids": ALL_IDS, "random_id": NOT_FOUND}
_READ_BOTH = (_topic(ORDERS), _topic(PLAIN))

PRINCIPALS = (
    Principal(name="no-rights"),
    Principal(name="ids", acls=(_ids(),), **_ALL_IDS, described=NOTHING),
    Principal(name="ids-prefix", acls=(_ids("p-hang", prefixed=True),), ids=_HANGS),
    Principal(name="ids-one", acls=(_ids(LIVE),), ids=frozenset({LIVE}), described=NOTHING),
    Principal(name="ids-write", acls=(_ids(operation=WRITE),), **_ALL_IDS, described=NOTHING, init=None),
    Principal(
        name="topics-describe",
        acls=(_topic(operation=DESCRIBE),),
        **_NO_READ,
        topics=ALL_TOPICS,
        random_topic=NO_TOPIC,
        abort=_NO_MARKER,
    ),
    Principal(name="topics-read", acls=(_topic(),), **_ALL_READ, log=True, verdicts=CLEAR),
    Principal(name="cluster", acls=(_cluster(),), cluster=True),
    Principal(name="cluster-action", acls=(_cluster(CLUSTER_ACTION),)),
    Principal(name="cluster-alter", acls=(_cluster(ALTER),), cluster=True),
    Principal(
        name="ids-topics", acls=(_ids(), _topic()), **_ALL_IDS, **_ALL_READ, described=BOTH, log=True, verdicts=CLEAR
    ),
    Principal(
        name="describe-all",
        acls=(_ids(), _topic(operation=DESCRIBE), _cluster()),
        **_ALL_IDS,
        **_NO_READ,
        described=BOTH,
        topics=ALL_TOPICS,
        random_topic=NO_TOPIC,
        abort=_NO_MARKER,
        cluster=True,
    ),
    Principal(
        name="ids-one-topic",
        acls=(_ids(), _topic(ORDERS)),
        **_ALL_IDS,
        described=frozenset({ORDERS}),
        orders=None,
        topics=frozenset({ORDERS}),
        verdicts=("live", None, None),
    ),
    Principal(
        name="prefix-topics",
        acls=(_ids("p-hang", prefixed=True), _topic()),
        **_ALL_READ,
        ids=_HANGS,
        log=True,
        verdicts=CLEAR,
    ),
    Principal(
        name="deny-id",
        acls=(_ids(), _ids(LIVE, deny=True), _topic(), _cluster()),
        **_ALL_READ,
        ids=ALL_IDS - {LIVE},
        random_id=NOT_FOUND,
        cluster=True,
        log=True,
        verdicts=CLEAR,
    ),
    Principal(
        name="deny-topic",
        acls=(_ids(), _topic(), _topic(ORDERS, ALL, deny=True), _cluster()),
        **_ALL_IDS,
        **_ALL_READ | {"topics": ALL_TOPICS - {ORDERS}, "orders": f"Describe on topic {ORDERS}"},
        described=frozenset({PLAIN}),
        cluster=True,
        log=True,
        verdicts=(None, "live", CLEAR[2]),
    ),
    # The broker would answer DescribeProducers of p-plain; who leads it is hidden.
    Principal(
        name="deny-describe",
        acls=(_ids(), _topic(), _topic(PLAIN, DESCRIBE, deny=True)),
        **_ALL_IDS,
        **_ALL_READ | {"topics": ALL_TOPICS - {PLAIN}, "plain": f"Describe on topic {PLAIN}"},
        described=frozenset({ORDERS}),
        log=True,
        verdicts=("live", None, None),
    ),
    Principal(name="log", acls=(_topic(LOG),), topics=frozenset({LOG}), log=True),
    Principal(name="idempotent", acls=(_cluster(IDEMPOTENT_WRITE),)),
    Principal(
        name="markers",
        acls=(_cluster(CLUSTER_ACTION), _topic()),
        **_ALL_READ | {"abort": None},
        log=True,
        verdicts=CLEAR,
    ),
    # Open producers are seen, and the log of ids is not: what is live looks exactly like what hangs.
    Principal(name="blind", acls=_READ_BOTH, **_BOTH_READ, verdicts=(UNKNOWN, UNKNOWN, UNKNOWN)),
    Principal(
        name="blind-prefix",
        acls=(*_READ_BOTH, _ids("p-hang", prefixed=True)),
        **_BOTH_READ,
        ids=_HANGS,
        verdicts=(UNKNOWN, UNKNOWN, CLEAR[2]),
    ),
    Principal(
        name="blind-deny",
        acls=(*_READ_BOTH, _ids(), _ids(LIVE, deny=True)),
        **_BOTH_READ,
        ids=ALL_IDS - {LIVE},
        random_id=NOT_FOUND,
        verdicts=(UNKNOWN, UNKNOWN, CLEAR[2]),
    ),
    Principal(
        name="half-blind",
        acls=(*_READ_BOTH, _ids(), _topic(PLAIN, DESCRIBE, deny=True)),
        **_ALL_IDS,
        orders=None,
        topics=frozenset({ORDERS}),
        described=frozenset({ORDERS}),
        verdicts=("live", None, None),
    ),
)
