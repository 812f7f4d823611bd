"""Checks of NameServers and brokers: whether they answer, agree, follow, and have room. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbitmq.admin.controller_facts import controller_issues, is_warning
from orbitmq.admin.route_comparison import differences
from orbitmq.doctor.issues import Issue, Severity, command, listed
from orbitmq.doctor.snapshot import BrokerFacts, Snapshot
from orbitmq.model.topic import Perm

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

CLOCK_WARNING_MS = 5_000
"""A broker says its time to the second, and answers later than it is asked."""
CLOCK_ERROR_MS = 60_000
DISK_WARNING_RATIO = 0.75
"""Above it Java's brokers delete before the time (diskMaxUsedSpaceRatio)."""
DISK_ERROR_RATIO = 0.90
"""Above it they take no messages (diskSpaceWarningLevelRatio)."""
BEHIND_MAX = 256 * 1024 * 1024
"""Bytes that a slave may be behind before its master stops waiting for it (haMaxGapNotInSync)."""
DISPATCH_BEHIND_MAX = 64 * 1024 * 1024
"""Bytes of the log that are not in consume queues yet, and so cannot be read."""
CERTIFICATE_WARNING_DAYS, CERTIFICATE_ERROR_DAYS = 30, 3
FILES_MIN = 65_536
"""Open files that a server should be allowed: connections and segments need one each."""
QUEUED_RATIO = 0.5
QUEUED_MS = 1_000

_DAY_MS = 86_400_000
_UPTIME = re.compile(r"\[ (\d{1,3}(?:\D?\d{3}){0,2}) days?, (\d{1,2}) hours?, (\d{1,2}) minutes?, (\d{1,2}) seconds?")
"""Java groups the digits of a thousand days and more, as its language does."""
_SLOW_PUT = re.compile(r"\[(?:[2-9]|10)~\d+s\]:(\d{1,18})|\[10s~\]:(\d{1,18})")
_POOLS = ("send", "pull", "query", "endTransaction")


def nameserver_unreachable(snapshot: Snapshot) -> Iterator[Issue]:
    """A NameServer of the list does not answer."""
    for server in snapshot.name_servers:
        if server.problem is not None:
            yield Issue(ERROR, "nameserver-unreachable", f"NameServer {server.address}", server.problem)


def route_drift(snapshot: Snapshot) -> Iterator[Issue]:
    """NameServers tell clients different routes."""
    routes = {server.address: server.routes for server in snapshot.name_servers if server.routes is not None}
    found = list(differences(routes))
    if found:
        subjects = listed(difference.subject for difference in found)
        text = f"{len(routes)} NameServers disagree about {len(found)} routes: {subjects}"
        yield Issue(ERROR, "route-drift", "NameServers", text, command("route", "compare"))


def two_addresses(snapshot: Snapshot) -> Iterator[Issue]:
    """One broker id has two addresses, or one address is two brokers: clients send to the wrong one."""
    by_id: dict[tuple[str, int], set[str]] = {}
    by_address: dict[str, set[tuple[str, int]]] = {}
    for broker in snapshot.brokers:
        by_id.setdefault((broker.name, broker.broker_id), set()).add(broker.address)
        by_address.setdefault(broker.address, set()).add((broker.name, broker.broker_id))
    for (name, broker_id), addresses in sorted(by_id.items()):
        if len(addresses) > 1:
            text = f"id {broker_id} has the addresses {listed(sorted(addresses))}: two brokers have one name and id, or it moved"
            yield Issue(ERROR, "two-addresses", f"broker {name}", text, command("route", "compare"))
    for address, registered in sorted(by_address.items()):
        brokers = sorted(registered)
        if len(brokers) > 1:
            names = listed(f"{name} (id {broker_id})" for name, broker_id in brokers)
            yield Issue(
                ERROR, "two-addresses", address, f"this address is registered as {names}", history(brokers[0][0])
            )


def broker_unreachable(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker cannot be reached at the address that it announces (in containers often an inner one)."""
    for broker in snapshot.brokers:
        if broker.problem is not None:
            text = f"it announces {broker.address}, which does not answer from here: {broker.problem}"
            if _is_private(broker.address):
                text += "; it may be an address inside of its container: brokerIP1 sets what is announced, --map-address where it is reached"
            yield Issue(ERROR, "broker-unreachable", broker.subject, text, history(broker.name))


def no_master(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker name has slaves alone: its queues can be read, and take no messages. Or there is no broker at all."""
    if not snapshot.brokers:
        text = "no broker is registered: nothing can be sent or read"
        yield Issue(ERROR, "no-master", "NameServers", text, command("route", "history"))
    for name, members in snapshot.members().items():
        if all(not broker.is_master for broker in members):
            ids = listed(str(broker.broker_id) for broker in members)
            text = f"no broker with id 0 is registered, only {ids}: its queues take no messages"
            yield Issue(ERROR, "no-master", f"broker {name}", text, _members_of(snapshot) or history(name))


def controllers(snapshot: Snapshot) -> Iterator[Issue]:
    """A controller of the brokers does not answer, or says itself that something is wrong: of their log, a disk, a group without a master."""
    to_type = _members_of(snapshot)
    issues = controller_issues(snapshot.controllers)
    silent = {facts.address for facts in snapshot.controllers if facts.problem is not None}
    for issue in issues:
        if issue.address in silent and any(f"({issue.address})" in other.text for other in issues):
            continue  # another controller misses it, and says since when
        yield Issue(
            ERROR if issue.is_error else WARNING, "controllers", f"controller {issue.address}", issue.text, to_type
        )


def own_alerts(snapshot: Snapshot) -> Iterator[Issue]:
    """A server of ours says itself that it is not healthy."""
    name_servers = [
        (f"NameServer {server.address}", server.health, _OF_NAME_SERVERS) for server in snapshot.name_servers
    ]
    brokers = [(broker.subject, broker.health, _hints_of(snapshot, broker)) for broker in snapshot.brokers]
    for subject, health, hints in (*name_servers, *brokers):
        for alert in (health or {}).get("alerts", ()):
            severity = WARNING if is_warning(alert) else ERROR
            yield Issue(
                severity, "own-alerts", subject, f"{alert['rule']}: {alert['reason']}", hints.get(alert["rule"])
            )
        for warning in (health or {}).get("warnings", ()):
            yield Issue(INFO, "own-alerts", subject, warning)


def clock_difference(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker's clock differs from ours: delays, retention and searches by time go wrong."""
    for broker in snapshot.brokers:
        difference = _clock_difference_ms(broker)
        if difference is not None and abs(difference) >= CLOCK_WARNING_MS:
            word = "ahead of" if difference > 0 else "behind"
            text = f"its clock is {abs(difference) / 1000:.0f} s {word} the one here"
            severity = ERROR if abs(difference) >= CLOCK_ERROR_MS else WARNING
            yield Issue(severity, "clock-difference", broker.subject, text)


def future_messages(snapshot: Snapshot) -> Iterator[Issue]:
    """Messages have store times in the future: a broker's clock was ahead when they came."""
    for broker in snapshot.brokers:
        told = broker.runtime.get("futureMessages", "").split()
        if len(told) > 1 and all(word.isdecimal() for word in told):
            text = f"messages before {told[0]} of its commitlog have store times up to {_hours(int(told[1]))} in the future"
            yield Issue(WARNING, "future-messages", broker.subject, text)
    told_by = {broker.name for broker in snapshot.brokers if "futureMessages" in broker.runtime}
    for broker in snapshot.masters():
        # Java's brokers tell when the newest message of each queue was stored.
        times = [stats.updated_at_ms for queue, stats in snapshot.queues.items() if queue.broker_name == broker.name]
        ahead_ms = max(times, default=0) - snapshot.taken_at_ms - (_clock_difference_ms(broker) or 0)
        if ahead_ms > CLOCK_ERROR_MS and broker.name not in told_by:
            text = f"its newest message has a store time {_hours(ahead_ms)} in the future"
            yield Issue(WARNING, "future-messages", broker.subject, text)


def disk_full(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker's disk is nearly full: messages go before their time, then none are taken."""
    for broker in snapshot.brokers:
        ratio = broker.runtime_number("commitLogDiskRatio")
        if ratio is not None and ratio >= DISK_WARNING_RATIO:
            severity = ERROR if ratio >= DISK_ERROR_RATIO else WARNING
            room = broker.runtime.get("commitLogDirCapacity", "")
            text = (
                f"{ratio:.0%} of its disk are used ({room.rstrip('.')})"
                if room
                else f"{ratio:.0%} of its disk are used"
            )
            yield Issue(
                severity, "disk-full", broker.subject, text, command("broker", "config", "get", "fileReservedTime")
            )


def writes_refused(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker refuses sends by its own setting, as one that is retired does."""
    for broker in snapshot.masters():
        text = broker.settings.get("brokerPermission", "")
        if not text.isdecimal() or int(text) & Perm.WRITE:
            continue
        alone = [
            topic
            for topic in snapshot.user_topics()
            if topic in broker.topics
            and broker.topics[topic].perm & Perm.WRITE
            and topic in snapshot.routes
            and not any(data.perm & Perm.WRITE for data in snapshot.routes[topic].queues)
        ]
        text = f"it refuses sends (brokerPermission={text})"
        if alone:
            text += f", and no other broker takes messages of {listed(alone)}"
        fix = command(
            "broker", "config", "set", f"brokerPermission={int(Perm.READ | Perm.WRITE)}", "--name", broker.name
        )
        yield Issue(WARNING if alone else INFO, "writes-refused", broker.subject, text, fix)


def replica_behind(snapshot: Snapshot) -> Iterator[Issue]:
    """A slave is far behind its master, or not in the sync set: a failover would lose messages or be refused."""
    for name, members in snapshot.members().items():
        master = next((broker for broker in members if broker.is_master and broker.problem is None), None)
        if master is None:
            continue
        end = master.runtime_number("commitLogMaxOffset")
        to_type = command("mqadmin", "haStatus", "-b", master.address)
        in_sync = master.runtime["syncStateSet"].split() if "syncStateSet" in master.runtime else None
        for broker in members:
            if broker.is_master or broker.problem is not None:
                continue
            own = broker.runtime_number("commitLogMaxOffset")
            if in_sync is not None and str(broker.broker_id) not in in_sync:
                text = "it is not in the sync set: it cannot become the master without loss"
                yield Issue(WARNING, "replica-behind", broker.subject, text, to_type)
            elif end is not None and own is not None and end - own > BEHIND_MAX:
                text = f"it is {(end - own) / 2**20:.0f} MiB behind the master of {name}"
                yield Issue(WARNING, "replica-behind", broker.subject, text, to_type)


def single_replica(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker has no slave: with its disk its messages are gone."""
    alone = sorted(name for name, (first, *others) in snapshot.members().items() if first.is_master and not others)
    if alone:
        text = f"without a slave: {listed(alone, 5)}; with the disk of one, the messages on it are gone"
        yield Issue(INFO, "single-replica", "brokers", text)


def versions_differ(snapshot: Snapshot) -> Iterator[Issue]:
    """Brokers run different versions; during an upgrade that is as it should be."""
    found: dict[str, list[str]] = {}
    for broker in snapshot.brokers:
        version = broker.runtime.get("brokerVersionDesc")
        if version:
            found.setdefault(version, []).append(broker.name)
    if len(found) > 1:
        text = "; ".join(f"{version}: {listed(sorted(set(names)))}" for version, names in sorted(found.items()))
        yield Issue(INFO, "versions-differ", "brokers", text)


def certificate_ends(snapshot: Snapshot) -> Iterator[Issue]:
    """A server's certificate ends soon: then no client connects any more."""
    servers = [(f"NameServer {server.address}", server.certificate_ends_ms) for server in snapshot.name_servers]
    for subject, ends_ms in servers + [(broker.subject, broker.certificate_ends_ms) for broker in snapshot.brokers]:
        if ends_ms is None:
            continue
        days = (ends_ms - snapshot.taken_at_ms) / _DAY_MS
        if days < CERTIFICATE_WARNING_DAYS:
            severity = ERROR if days < CERTIFICATE_ERROR_DAYS else WARNING
            yield Issue(severity, "certificate-ends", subject, f"its certificate ends in {days:.1f} days")


def file_limit(snapshot: Snapshot) -> Iterator[Issue]:
    """A server of ours may open few files: connections are refused when they are used up."""
    servers = [(f"NameServer {server.address}", server.health) for server in snapshot.name_servers]
    for subject, health in servers + [(broker.subject, broker.health) for broker in snapshot.brokers]:
        limit = (health or {}).get("fileLimit")
        if isinstance(limit, int) and 0 < limit < FILES_MIN:
            text = f"it may open {limit} files; {FILES_MIN} are recommended (ulimit -n, LimitNOFILE of its unit)"
            yield Issue(INFO, "file-limit", subject, text)


def slow_writes(snapshot: Snapshot) -> Iterator[Issue]:
    """Writes wait for the disk or the page cache, or requests queue up in a broker."""
    for broker in snapshot.brokers:
        held_ms = broker.runtime_number("pageCacheLockTimeMills") or 0
        if held_ms >= QUEUED_MS:
            text = f"a write has waited {held_ms:.0f} ms for the page cache"
            yield Issue(WARNING, "slow-writes", broker.subject, text, command("stats"))
        slow = sum(int(one or other) for one, other in _SLOW_PUT.findall(_put_times(broker)))
        if slow:
            text = f"{slow} sends took 2 s or more to be written in the last time that it counts"
            yield Issue(WARNING, "slow-writes", broker.subject, text, command("stats"))
        for pool in _POOLS:
            waiting = broker.runtime_number(f"{pool}ThreadPoolQueueHeadWaitTimeMills") or 0
            queued = broker.runtime_number(f"{pool}ThreadPoolQueueSize") or 0
            capacity = broker.runtime_number(f"{pool}ThreadPoolQueueCapacity") or 0
            if waiting >= QUEUED_MS or (capacity and queued >= QUEUED_RATIO * capacity):
                text = f"{queued:.0f} requests wait for its {pool} threads, the first one for {waiting:.0f} ms"
                yield Issue(WARNING, "slow-writes", broker.subject, text, command("stats"))


def dispatch_behind(snapshot: Snapshot) -> Iterator[Issue]:
    """Stored messages are not in consume queues yet: consumers do not see them."""
    for broker in snapshot.brokers:
        behind = broker.runtime_number("dispatchBehindBytes") or 0
        if behind > DISPATCH_BEHIND_MAX:
            text = f"{behind / 2**20:.0f} MiB of its log are not in consume queues yet: consumers do not see them"
            yield Issue(
                WARNING, "dispatch-behind", broker.subject, text, command("broker", "status", "dispatchBehindBytes")
            )


def timers_off(snapshot: Snapshot) -> Iterator[Issue]:
    """Timers are switched off: messages with a delivery time of their own are refused, and figures of zero mean nothing."""
    for broker in snapshot.masters():
        if broker.settings.get("timerWheelEnable") == "false":
            text = "timerWheelEnable is false: messages with a delivery time are refused"
            yield Issue(
                INFO, "timers-off", broker.subject, text, command("broker", "config", "get", "timerWheelEnable")
            )


def not_told(snapshot: Snapshot) -> Iterator[Issue]:
    """A broker refused a question: checks that need the answer say nothing about it."""
    for broker in snapshot.brokers:
        for what, reason in sorted(broker.refusals.items()):
            text = f"it did not tell its {what}: {reason}; checks that need them say nothing"
            yield Issue(INFO, "not-told", broker.subject, text)
    for text in snapshot.left_out:
        yield Issue(INFO, "not-told", "snapshot", text)


def history(broker_name: str) -> str:
    """Return the command that shows when a broker's members came and went."""
    return command("route", "history", broker_name)


_OF_NAME_SERVERS: dict[str, str | None] = {
    "RocketmqNameServerBrokerCountDropped": command("route", "history", "--since", "24h"),
    "RocketmqNameServerRouteQueriesFail": command("topic", "list"),
}


def _hints_of(snapshot: Snapshot, broker: BrokerFacts) -> dict[str, str | None]:
    """Return the command that helps with each alert of a broker; those without one are of its machine, and say what to do."""
    kept_hours = command("broker", "config", "get", "fileReservedTime")
    root = broker.settings.get("storePathRootDir")
    return {
        "RocketmqBrokerMemberMissing": _members_of(snapshot),
        "RocketmqBrokerFewMembers": _members_of(snapshot),
        "RocketmqBrokerDiskFull": kept_hours,
        "RocketmqBrokerDiskNearlyFull": kept_hours,
        "RocketmqBrokerNoNameServer": command("broker", "config", "get", "namesrvAddr"),
        "RocketmqBrokerRecoveryCut": command("store", "salvage", root, "--dry-run") if root else None,
    }


def _members_of(snapshot: Snapshot) -> str | None:
    """Return the command that shows the members of controlled groups; None without controllers."""
    addresses = ";".join(facts.address for facts in snapshot.controllers)
    return command("controller", "status", "-a", addresses) if addresses else None


CHECKS = (
    nameserver_unreachable,
    route_drift,
    two_addresses,
    broker_unreachable,
    no_master,
    controllers,
    own_alerts,
    clock_difference,
    future_messages,
    disk_full,
    writes_refused,
    replica_behind,
    single_replica,
    versions_differ,
    certificate_ends,
    file_limit,
    slow_writes,
    dispatch_behind,
    timers_off,
    not_told,
)


def _clock_difference_ms(broker: BrokerFacts) -> int | None:
    """Return how far a broker's clock is ahead, from the start time and the seconds of running that it reports."""
    started = broker.runtime_number("bootTimestamp")
    uptime = _UPTIME.search(broker.runtime.get("runtime", ""))
    if started is None or uptime is None or not broker.queried_at_ms:
        return None
    days, hours, minutes, seconds = (int(re.sub(r"\D", "", part)) for part in uptime.groups())
    reported_ms = int(started) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + 500
    return reported_ms - broker.queried_at_ms


def _hours(time_ms: int) -> str:
    return f"{time_ms / 3_600_000:.1f} h"


def _put_times(broker: BrokerFacts) -> str:
    return broker.runtime.get("putMessageDistributeTime", "")


def _is_private(address: str) -> bool:
    return address.startswith(("10.", "172.", "192.168.", "127."))
