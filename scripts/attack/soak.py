"""Honest and hostile load together for a while: memory must stay flat, honest clients must be answered."""

import json
import random
import threading
import time

from common import FORM, Attack, Honest, Server, form, png, request
from server import GIF, mutated


# Tasks that nobody keeps are held up to this number (1,000 by default, half a megabyte each here). It is reached on the way up.
TASKS = 50


def soak(binary, seconds):
    attack = Attack(f"soak of {seconds:.0f} s")
    with Server(binary, ["--max-tasks", str(TASKS)]) as server:
        path = server.task()
        large = server.task(50)
        end = time.monotonic() + seconds
        memory = []
        hostile = [
            request("POST", path, form([(i % 2, GIF) for i in range(500)]), FORM),
            request("POST", large, form([("q", png(seed=i)) for i in range(200)]), FORM),
            request("POST", "/v1/tasks?keep=false", form([(f"c{i % 10}", png(seed=i)) for i in range(40)]), FORM),
            request("GET", "/v1/tasks", host="evil.example"),
            request("BREW", "/"),
            request("POST", path, png(148_000, 168, grey=False), "image/png"),
        ]
        rng = random.Random(3)

        def attacker(_):
            while time.monotonic() < end:
                data = rng.choice(hostile)
                data = mutated(rng, data) if rng.random() < 0.5 else data
                try:
                    with server.connect(5) as stream:
                        stream.sendall(data)
                        # A third read their answer, a third leave, a third wait without reading.
                        match rng.randrange(3):
                            case 0: stream.settimeout(2), stream.recv(100)
                            case 1: pass
                            case _: time.sleep(rng.random())
                except OSError:
                    pass

        threads = [threading.Thread(target=attacker, args=(i,)) for i in range(6)]
        with Honest(server, path) as honest:
            for thread in threads:
                thread.start()
            while time.monotonic() < end:
                time.sleep(min(5, seconds / 20))
                memory.append(server.memory_mb())
            for thread in threads:
                thread.join()
        honest.report(attack, within=2.0)
        # The first fifth is the way up.
        steady = memory[len(memory) // 5:]
        spread = max(steady) - min(steady)
        early, late = steady[:len(steady) // 2], steady[len(steady) // 2:]
        drift = sum(late) / len(late) - sum(early) / len(early)
        attack.check(drift < 100, f"memory drifted by {drift:.0f} MB")
        attack.check(spread < 100, f"memory moved within {spread:.0f} MB")
        attack.check(server.alive(), "the server is gone")
        held = len(json.loads(server.ask("GET", "/v1/tasks")[2])["tasks"])
        attack.check(held == TASKS, f"{held} tasks are held: the memory of {TASKS} was not seen")
        attack.note(f"memory {min(steady):.0f} to {max(steady):.0f} MB (spread {spread:.0f}), second half {drift:+.0f} MB against the first")
    return attack
