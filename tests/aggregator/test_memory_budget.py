"""Test which caller gives way when calls hold too much memory, and how many connections stay."""

import os
import select
import socket
import sys
from collections import Counter
from contextlib import ExitStack
from random import Random

import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.grpc.connections import (
    Endpoint,
    close,
    connections,
    endpoint,
    idlest,
    received,
    shut_out,
    silence,
)
from geoveil.aggregator.grpc.memory_budget import CALL_BYTES, HeldCall, MemoryBudget

LIMIT, MOST_MESSAGE = 1 << 20, 1 << 18


class Seconds:
    """A clock that stands where a test puts it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Server:
    """A budget whose closed connections end their calls at once, or later."""

    def __init__(self) -> None:
        self.clock = Seconds()
        self.closed: list[str] = []
        self.memory = MemoryBudget(LIMIT, MOST_MESSAGE, close=self.closed.append, clock=self.clock)


def peer(address: int, port: int) -> str:
    return f"ipv4:192.0.2.{address}:{port}"


def refused(server: Server, call: HeldCall, message: int) -> bool:
    try:
        server.memory.resize(call, message)
    except ServiceError as error:
        return error.code is Code.RATE_LIMITED
    return False


def test_whoever_holds_most_is_refused_more_and_closed_for_others():
    server = Server()
    greedy, modest = server.memory.begin(peer(1, 1)), server.memory.begin(peer(2, 1))
    assert not refused(server, greedy, 400_000)
    assert refused(server, greedy, 600_000)
    assert server.closed == []
    assert server.memory.held == CALL_BYTES + 800_000  # a refusal changes nothing
    assert not refused(server, modest, 150_000)
    assert server.closed == [peer(1, 1)]
    assert server.memory.held == 300_000
    server.memory.end(greedy)
    server.memory.end(modest)
    assert server.memory.held == 0
    assert server.memory.busy() == set()


def test_the_address_with_most_is_looked_at_first():
    """Many connections that hold little each are one greedy address."""
    server = Server()
    many = [server.memory.begin(peer(1, port)) for port in range(20)]
    alone = server.memory.begin(peer(2, 1))
    assert not refused(server, alone, 100_000)
    assert not any(refused(server, call, 25_000) for call in many[1:])
    assert peer(2, 1) not in server.closed
    assert server.closed


def test_a_request_that_is_slow_to_come_counts_as_large_as_it_may_become():
    server = Server()
    quick = server.memory.begin(peer(1, 1))
    server.memory.read(quick)
    server.memory.resize(quick, 100)
    slow = [server.memory.begin(peer(2, port)) for port in range(3)]
    for call in slow:
        server.memory.read(call)
    server.clock.now = 0.05
    assert not server.memory.slow()
    server.clock.now = 0.2
    asked = server.memory.slow()
    assert asked == {peer(2, port) for port in range(3)}
    assert server.memory.held == 4 * CALL_BYTES
    server.memory.count_slow(dict.fromkeys(asked))
    assert len(server.closed) == 2, "two of 2 * 256 KiB are beyond 1 MiB"
    assert all(one.startswith("ipv4:192.0.2.2:") for one in server.closed)
    assert server.memory.held <= LIMIT


def test_slow_requests_hold_no_more_than_their_connections_received():
    server = Server()
    modest = [server.memory.begin(peer(address, 1)) for address in range(10)]
    greedy = [server.memory.begin(peer(99, 1)) for _ in range(5)]
    for call in (*modest, *greedy):
        server.memory.read(call)
    server.clock.now = 0.2
    received = {peer(address, 1): 1_000 for address in range(10)}
    server.memory.count_slow(received | {peer(99, 1): 200_000})
    assert server.closed == []
    assert server.memory.held == 10 * CALL_BYTES + 2 * 200_000
    server.memory.count_slow(received | {peer(99, 1): 600_000})
    assert server.closed == [peer(99, 1)]


def test_until_the_calls_of_closed_connections_have_ended_others_get_one_at_a_time():
    server = Server()
    calls = [server.memory.begin(peer(1, port)) for port in (1, 2, 2, 2)]
    assert not refused(server, calls[1], 300_000)
    assert not refused(server, calls[0], 250_000)
    assert server.closed == [peer(1, 2)]
    first = server.memory.begin(peer(3, 1))
    with pytest.raises(ServiceError):
        server.memory.begin(peer(3, 1))
    server.memory.begin(peer(4, 1))
    for call in calls[1:]:
        server.memory.end(call)
    second = server.memory.begin(peer(3, 1))
    server.memory.end(first)
    server.memory.end(second)


def test_what_is_held_adds_up_and_stays_within_the_limit():
    """Against a plain sum, with closed connections that end their calls late."""
    rng, server = Random(1), Server()
    calls: dict[HeldCall, tuple[str, int]] = {}
    happened: Counter[str] = Counter()
    for _ in range(5000):
        what = rng.choice(["begin", "resize", "resize", "end"])
        try:
            if what == "begin":
                one = peer(rng.randrange(3), rng.randrange(5))
                calls[server.memory.begin(one)] = one, 0
            elif calls:
                call = rng.choice(list(calls))
                if what == "end":
                    server.memory.end(call)
                    del calls[call]
                else:
                    message = rng.randrange(MOST_MESSAGE)
                    server.memory.resize(call, message)
                    calls[call] = calls[call][0], message
        except ServiceError:
            what = "refused"
        happened[what] += 1
        happened["closed"] += len(server.closed)
        server.closed.clear()
        kept = [m for c, (_, m) in calls.items() if not c.connection.closed]
        assert server.memory.held == sum(max(CALL_BYTES, 2 * m) for m in kept) <= LIMIT
    assert min(happened.values()) > 50
    for call in calls:
        server.memory.end(call)
    assert server.memory.held == server.memory._ending == 0


def test_connections_that_are_closed_are_those_of_the_address_with_most():
    """Against closing one at a time, with the counts made anew each time."""
    rng = Random(2)
    for _ in range(100):
        found = {
            (bytes([rng.randrange(4)]), port): (rng.random() < 0.5, rng.random())
            for port in range(rng.randrange(30))
        }
        left, chosen = dict(found), []
        for _ in range(min(10, len(found))):
            most = max(Counter(address for address, _ in left).values())
            owners = {a for a, n in Counter(address for address, _ in left).items() if n == most}
            one = idlest(found, len(chosen) + 1)[-1]
            assert one[0] in owners
            assert left[one] == min(state for (a, _), state in left.items() if a == one[0])
            chosen.append(one)
            del left[one]
        assert idlest(found, 10) == chosen
    assert idlest({}, 3) == []


def test_of_addresses_that_have_as_many_idle_connections_are_closed_first():
    found = {(bytes([n, 0, 0, 0]), 1): (n % 2 == 0, float(n)) for n in range(6)}
    assert [host[0] for host, _ in idlest(found, 6)] == [1, 3, 5, 0, 2, 4]


def test_addresses_of_one_site_are_one():
    """Who has a /64 of IPv6 addresses has not more than others for it."""
    site = bytes.fromhex("20010db800000001")
    found = {(site + bytes([n] * 8), n): (True, float(n)) for n in range(20)}
    found |= {(bytes([10, 0, 0, n]), 1): (False, 0.0) for n in range(5)}
    assert all(host.startswith(site) for host, _ in idlest(found, 18))


@pytest.fixture
def pairs():
    """The port of a server, and three connections of it: the sides of client and server."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        opened = []
        for _ in range(3):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.settimeout(5)
            opened.append((client, stack.enter_context(listening.accept()[0])))
        yield port, opened


def of(client: socket.socket) -> Endpoint:
    host, port = client.getsockname()
    found = endpoint(f"ipv4:{host}:{port}")
    assert found is not None
    return found


def test_connections_are_found_and_closed_and_no_others(pairs):
    port, opened = pairs
    clients = [client for client, _ in opened]
    before = len(os.listdir("/dev/fd"))
    assert sorted(connections([port])) == sorted(map(of, clients))
    assert connections([port + 1]) == []
    opened[0][1].sendall(b"waits")
    assert close([port], {of(clients[0]), (bytes(4), 9)}) == 1
    assert clients[0].recv(100) == b"waits"
    assert clients[0].recv(100) == b""
    for client, side in opened[1:]:
        side.sendall(b"still here")
        assert client.recv(100) == b"still here"
    assert len(os.listdir("/dev/fd")) == before, "no duplicate is left"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere connections are closed instead")
def test_a_silenced_connection_is_heard_no_more_and_not_told(pairs):
    port, opened = pairs
    (client, side), (other, other_side) = opened[:2]
    client.send(b"before")
    assert silence([port], {of(client)}) == 1
    client.send(b"after")
    other.send(b"heard")
    assert other_side.recv(100) == b"heard"
    side.settimeout(0.3)
    with pytest.raises(TimeoutError):
        side.recv(100)
    told = select.poll()
    told.register(client, select.POLLRDHUP)
    assert told.poll(0) == []
    assert close([port], {of(client)}) == 1
    assert told.poll(1000) != []


def connects(host: str, port: int, source: str = "") -> bool:
    try:
        with socket.create_connection((host, port), 0.1, (source, 0) if source else None):
            return True
    except TimeoutError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is shut out")
def test_new_connections_of_addresses_are_not_taken_and_older_ones_are_heard():
    here, there, site = bytes([127, 0, 0, 1]), bytes([127, 0, 0, 2]), bytes(8)
    many = [bytes([10, 0, *divmod(number, 256)]) for number in range(255)]
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port, port_of_other = listening.getsockname()[1], other.getsockname()[1]
        sources = (("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.2"), ("::1", "::1"))
        with socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0)) as older:
            accepted = listening.accept()[0]
            for chosen, taken in (
                ([*many, there], [True, False, True]),
                ([site], [True, True, False]),
                ([b"unix:", here, site, there], [False, False, False]),
                ([], [True, True, True]),
            ):
                assert shut_out([port], chosen) == 1
                assert [connects(host, port, source) for host, source in sources] == taken
                assert connects("127.0.0.1", port_of_other)
                older.sendall(b"heard")
                assert accepted.recv(100) == b"heard"
            accepted.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is shut out")
def test_who_was_taken_while_others_were_shut_out_is_heard():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        shut_out([port], [bytes([127, 0, 0, 2])])
        with socket.create_connection(("127.0.0.1", port), 5) as one, listening.accept()[0] as side:
            shut_out([port], [bytes([127, 0, 0, 1])])
            one.sendall(b"heard")
            assert side.recv(100) == b"heard"
            assert not connects("127.0.0.1", port)


def test_the_operating_system_tells_what_connections_received(pairs):
    port, opened = pairs
    clients = [client for client, _ in opened]
    for number, (client, side) in enumerate(opened):
        client.sendall(bytes(1000 * number))
        assert len(side.recv(1000 * number, socket.MSG_WAITALL)) == 1000 * number
    wanted = {of(client) for client in clients[1:]}
    found = received([port], wanted)
    if sys.platform == "linux":
        assert found == {of(clients[number]): 1000 * number for number in (1, 2)}
    else:
        assert found == {}


@pytest.mark.parametrize(
    "name", ["", "unix:", "unix:/run/socket", "ipv4:nowhere:1", "ipv4:1.2.3.4"]
)
def test_what_is_no_address_is_nobody(name):
    assert endpoint(name) is None


def test_one_endpoint_has_many_names():
    names = ["ipv6:%5B2001:db8::1%5D:5", "ipv6:[2001:db8:0:0::1]:5"]
    assert len(set(map(endpoint, names))) == 1
    assert endpoint("ipv6:[::ffff:192.0.2.1]:5") == endpoint("ipv4:192.0.2.1:5")
