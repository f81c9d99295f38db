"""Many tasks, many changes of one task, pools of images to label, a full disk, a second signal."""

import base64
import json
import os
import signal
import subprocess
import tempfile
import time

from common import FORM, Attack, Honest, Server, answer, form, is_json_error, png, request
from server import cpu_seconds, side_by_side

JSON = "application/json"


def many_tasks(binary, count=300, seconds=10):
    """Many tasks with long names, listed and shown from many sides."""
    attack = Attack("lists of many long tasks")
    with Server(binary) as server:
        small = server.task()
        body = form([("ä" * 95 + str(i), png(seed=i)) for i in range(20)])
        paths = [server.task_of(body, keep=False) for _ in range(count)]
        length = len(server.ask("GET", "/v1/tasks")[2])
        end = time.monotonic() + seconds
        with Honest(server, small) as honest:

            def send(i):
                while time.monotonic() < end:
                    target = ("/v1/tasks", f"{paths[i]}/examples", "/metrics")[i % 3]
                    status, _, answered = server.ask("GET", target, timeout=60)
                    attack.check(status == 200 or (status == 503 and is_json_error(answered)), (target, status, answered[:100]))

            side_by_side(24, send)
        honest.report(attack)
        attack.note(f"a list of {length / 1e6:.1f} MB, server {server.memory_mb():.0f} MB")
    return attack


def suggestions(binary, seconds=12):
    """Pools of images to choose from: odd questions are refused, dear ones keep nobody waiting, and who leaves gives the cores back."""
    attack = Attack("what to label next")
    with Server(binary) as server:
        small = server.task()
        large = server.task_of(form([(f"c{i % 20}", png(seed=i)) for i in range(200)]), keep=False)
        place = small.rsplit("/", 1)[0] + "/suggest"
        image = base64.b64encode(png(seed=1)).decode()
        odd = [{"images": [image], "count": 0}, {"images": [image], "count": -1}, {"images": [image], "count": 1.5}, {"images": [image], "count": 2**64},
               {"images": [image], "criterion": "none"}, {"images": [image], "criterion": "x" * 100_000}, {"images": [image], "criterion": 7}, {"images": []},
               {"images": [image] * 501}, {"images": "x"}, {"images": [image], "pool": 1}, {}, [], {"images": ["!"]}]
        for question in odd:
            status, _, body = server.ask("POST", place, json.dumps(question).encode(), JSON)
            attack.check(400 <= status < 500 and is_json_error(body), (str(question)[:80], status, body[:100]))
        for question in ({"images": [image], "count": 2**63}, {"images": [image, "aGVsbG8=", image], "count": 3}, {"images": ["aGVsbG8="] * 500}):
            status, _, body = server.ask("POST", place, json.dumps(question).encode(), JSON)
            attack.check(status == 200 and "suggestions" in json.loads(body), (str(question)[:80], status, body[:100]))
        pool = [base64.b64encode(png(seed=i)).decode() for i in range(500)]
        ask = request("POST", f"{large}/suggest", json.dumps({"images": pool, "count": 500}).encode(), JSON)
        end = time.monotonic() + seconds
        with Honest(server, small) as honest:

            def send(i):
                while time.monotonic() < end:
                    with server.connect() as stream:
                        stream.sendall(ask)
                        if i % 2:
                            time.sleep(0.7)
                        else:
                            stream.settimeout(90)
                            status, _, body = answer(stream)
                            attack.check(status in (200, 503), (status, body[:200]))

            side_by_side(6, send)
        honest.report(attack)
        # What they left behind ends soon: a question that is cut off is not thought about.
        with server.connect() as stream:
            stream.sendall(ask)
            time.sleep(1.5)
        time.sleep(0.7)
        spent = cpu_seconds(server)
        time.sleep(2)
        spent = cpu_seconds(server) - spent
        attack.check(spent < 0.4, f"{spent:.2f} s of cores in 2 s after everybody left")
    return attack


def forms(binary):
    """Forms of 30 MB that are dear to read: boundaries that are nearly there, heads without end, parts within parts."""
    attack = Attack("forms that are dear to read")
    with Server(binary) as server:
        path = server.task()
        head, much = b'--XX\r\nContent-Disposition: form-data; name="q"\r\n', 30 << 20
        bodies = [head + b"\r\n" + b"\r\n--X" * (much // 5), head + b"\r\n" + b"\r\n--XXX" * (much // 7), head + b"X: " + b"y" * much, head + b"X: y\r\n" * (much // 6),
                  b"\r\n" * (much // 2), b"--XX" * (much // 4), head + b"\r\n" + b"-" * much, (head + b"\r\n\r\n") * (much // (len(head) + 4)),
                  b'--XX\r\nContent-Disposition: form-data; name="' + b"\\\"" * (much // 2) + b'"\r\n\r\nx\r\n--XX--\r\n',
                  b"--XX\r\nContent-Disposition: form-data; name*=utf-8''" + b"%c3%a4" * (much // 6) + b"\r\n\r\nx\r\n--XX--\r\n",
                  b"--XX\r\nContent-Disposition: " + b"; a=b" * (much // 5) + b"\r\n\r\nx\r\n--XX--\r\n"]
        slowest = 0.0
        with Honest(server, path) as honest:

            def send(i):
                nonlocal slowest
                begun = time.monotonic()
                status, _, body = server.ask("POST", path, bodies[i], FORM, timeout=60)
                slowest = max(slowest, time.monotonic() - begun)
                attack.check(400 <= status < 500 or status in (200, 503), (bodies[i][:80], status, body[:150]))

            for i in range(len(bodies)):
                send(i)
            side_by_side(len(bodies), send)
        honest.report(attack)
        attack.check(server.alive() and server.memory_mb() < 700, f"{server.memory_mb():.0f} MB")
        attack.note(f"slowest answer {slowest:.1f} s, server {server.memory_mb():.0f} MB")
    return attack


def changes(binary, seconds=8):
    """One task changed by many at once; classes and examples that are not there; and what was changed is there after a kill."""
    attack = Attack("a task changed from many sides")
    with Server(binary) as server:
        small = server.task()
        place = server.task_of(form([(f"c{i % 4}", png(seed=i)) for i in range(12)]))
        for method, target, body, kind in [
                ("DELETE", "/examples/18446744073709551616", b"", None), ("DELETE", "/examples/-1", b"", None), ("DELETE", "/examples/12", b"", None),
                ("DELETE", "/examples/%00", b"", None), ("DELETE", "/classes/nobody", b"", None), ("DELETE", "/classes/%ff", b"", None),
                ("DELETE", "/classes/" + "n" * 3500, b"", None), ("DELETE", "/classes/..%2f..%2fetc", b"", None), ("POST", "/examples", png(seed=1), "image/png"),
                ("POST", "/examples", form([("n" * 300, png(seed=1))]), FORM), ("POST", "/examples", form([("a\x1b[2J", png(seed=1))]), FORM),
                ("POST", "/examples", form([(f"d{i}", png(seed=i)) for i in range(400)]), FORM), ("POST", "/examples", b"{}", JSON),
                ("POST", "/examples", b'{"classes":[]}', JSON), ("PUT", "/examples", b"", None), ("GET", "/classes/c0", b"", None)]:
            status, _, answered = server.ask(method, place + target, body, kind)
            attack.check(400 <= status < 500 and is_json_error(answered), (method, target[:60], status, answered[:150]))
        end = time.monotonic() + seconds
        with Honest(server, small) as honest:

            def send(i):
                n = 0
                while time.monotonic() < end:
                    n += 1
                    method, target, body = [("POST", "/examples", form([(f"c{n % 6}", png(seed=97 * i + n))])), ("DELETE", f"/examples/{n % 9}", b""),
                                            ("DELETE", f"/classes/c{n % 6}", b""), ("GET", "/examples", b"")][(i + n) % 4]
                    status, _, answered = server.ask(method, place + target, body, FORM if body else None)
                    attack.check(status == 200 or (status in (404, 409, 422) and is_json_error(answered)), (method, target, status, answered[:150]))

            side_by_side(8, send)
        honest.report(attack)
        before = [server.ask("GET", place + part)[2] for part in ("", "/examples")]
        server.process.kill()
        server.process.wait()
        server.start()
        after = [server.ask("GET", place + part)[2] for part in ("", "/examples")]
        shown = lambda answers: (json.loads(answers[0])["classes"], json.loads(answers[1]))
        attack.check(shown(before) == shown(after), (before[0][:200], after[0][:200]))
        left = [name for name in os.listdir(server.state) if name.endswith("writing")]
        attack.check(not left, left)
    return attack


def full_disk(binary):
    """A disk that is full while tasks are kept: those that were answered for are whole files, no other is, and the server goes on."""
    attack = Attack("a full disk")
    body = lambda n: form([(f"c{i % 4}", png(seed=100 * n + i)) for i in range(60)])
    with tempfile.TemporaryDirectory() as state, Server(binary, state=state, within=[
            # A disk of 1 MB in a namespace of its own: nothing is mounted for anybody else.
            "unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=1m,mode=700 tmpfs {state} && exec "$@"', "sh"]) as server:
        kept, refused = [], 0
        for n in range(40):
            status, _, answered = server.ask("POST", "/v1/tasks", body(n), FORM)
            if status == 201:
                kept.append(json.loads(answered)["id"])
            else:
                refused += 1
                attack.check(status == 500 and is_json_error(answered) and state.encode() not in answered, (status, answered[:200]))
        attack.check(kept and refused, f"{len(kept)} kept, {refused} refused: the disk was never full")
        held = {task["id"] for task in json.loads(server.ask("GET", "/v1/tasks")[2])["tasks"]}
        attack.check(held == set(kept), f"{len(held)} held of {len(kept)}")
        inside_state = f"/proc/{server.process.pid}/root{state}"
        files = {name[:-5] for name in os.listdir(inside_state) if name.endswith(".task")}
        attack.check(files == set(kept), f"{len(files)} files of {len(kept)} tasks")
        for task in kept[:3]:
            attack.check(server.ask("DELETE", f"/v1/tasks/{task}")[0] == 204, "a task cannot be deleted")
        attack.check(server.ask("POST", f"/v1/tasks/{kept[3]}/predict", png(seed=1), "image/png")[0] == 200, "no answer beside a full disk")
        attack.check(server.ask("POST", "/v1/tasks", body(99), FORM)[0] == 201, "no room after tasks were deleted")
        attack.note(f"{len(kept)} tasks kept, {refused} refused")
    return attack


def second_signal(binary):
    """A second SIGTERM ends the server at once, whatever it works on; tasks that were answered for are there again."""
    attack = Attack("a second SIGTERM")
    with Server(binary) as server:
        place = server.task_of(form([(f"c{i % 2}", png(seed=i)) for i in range(490)]))
        for _ in range(3):
            stream = server.connect()
            stream.sendall(request("POST", f"{place}/examples", form([(f"c{i % 2}", png(seed=1000 + i)) for i in range(490)], 490), FORM))
            time.sleep(0.8)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            try:
                code = server.process.wait(10)
            except subprocess.TimeoutExpired:
                code = None
            attack.check(code is not None and time.monotonic() - start < 2, f"exit code {code} after {time.monotonic() - start:.1f} s")
            stream.close()
            server.start()
            attack.check(server.ask("GET", place)[0] == 200, "the task is gone")
    return attack


ALL = [many_tasks, suggestions, forms, changes, full_disk, second_signal]
