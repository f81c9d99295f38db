"""Clients that take from others what they share: seats, room for bodies, turns. Bounded, on loopback, each with a server of its own."""

import socket
import threading
import time

from common import FORM, Attack, Honest, Server, form, photo, request
from server import GIF, side_by_side


def beside_honest(attack, server, path, one, first):
    """Nine clients that do `one`; after so many seconds, two honest ones beside them, of the same address and of another."""
    threads = [threading.Thread(target=one) for _ in range(9)]
    for thread in threads:
        thread.start()
    time.sleep(first)
    with Honest(server, path) as near, Honest(server, path, photo(), source="127.0.0.2") as other:
        for thread in threads:
            thread.join()
    near.report(attack)
    other.report(attack)
    attack.note(f"server {server.memory_mb():.0f} MB")


def neighbours(binary):
    """All seats of one address are worked for, and more of it knock: others come in all the same."""
    attack = Attack("one address takes all its seats and knocks")
    with Server(binary, ["--max-peer-connections", "200", "--max-connections", "1000"]) as server:
        path = server.task()
        work = request("POST", path, form([(i % 2, GIF) for i in range(22)]), FORM)
        held = []
        for _ in range(200):
            stream = server.connect()
            stream.sendall(work)
            held.append(stream)
        with Honest(server, path, source="127.0.0.2") as other:
            for _ in range(300):
                stream = socket.socket()
                stream.setblocking(False)
                stream.connect_ex(("127.0.0.1", server.port))
                held.append(stream)
                time.sleep(0.01)
            time.sleep(2)
        other.report(attack)
        attack.note(f"{len(held)} connections of one address, honest ones of another")
        for stream in held:
            stream.close()
    return attack


def trickles(binary, seconds=12):
    """Bodies of 33 MB that come fast and then a little now and then, so that they never stand still."""
    attack = Attack("bodies that trickle")
    with Server(binary) as server:
        path = server.task()
        end = time.monotonic() + seconds

        def one():
            while time.monotonic() < end:
                try:
                    with server.connect(5) as stream:
                        stream.sendall(request("POST", path, b"", "image/png", length=33_000_000))
                        for _ in range(29):
                            stream.sendall(bytes(1 << 20))
                        while time.monotonic() < end:
                            stream.sendall(bytes(64 << 10))
                            time.sleep(0.35)
                except OSError:
                    time.sleep(0.1)

        beside_honest(attack, server, path, one, 1.5)
    return attack


def whole_bodies(binary, seconds=10):
    """Nine bodies of 33 MB that are whole and take seconds of work each, again and again."""
    attack = Attack("large bodies that are worked on")
    with Server(binary) as server:
        path = server.task()
        work = request("POST", path, form([("q", GIF + bytes(1_500_000))] * 22), FORM, ["Connection: close"])
        end = time.monotonic() + seconds

        def one():
            while time.monotonic() < end:
                try:
                    with server.connect(5) as stream:
                        stream.sendall(work)
                        stream.settimeout(max(0.1, end - time.monotonic()))
                        stream.recv(1)
                except OSError:
                    pass

        beside_honest(attack, server, path, one, 1)
    return attack


def long_names(binary):
    """Forms of 490 classes whose names of 65 kB differ at their end only."""
    attack = Attack("forms with long names")
    with Server(binary) as server:
        path = server.task()
        body = form([("n" * 65_000 + f"{i:04}", b"P2 1 1 255 7") for i in range(490)])
        with Honest(server, path) as honest:

            def send(_):
                status, _, answered = server.ask("POST", "/v1/tasks", body, FORM)
                attack.check(status == 422, (status, answered[:200]))

            for _ in range(3):
                side_by_side(3, send)
        honest.report(attack)
    return attack


ALL = [neighbours, trickles, whole_bodies, long_names]
