#!/usr/bin/env python3
"""The whole campaign: attacks on the server, damaged files, kills around saves. Talks to loopback only and ends by itself.

    scripts/attack/run.py target/release/siskin            all of it, under 15 minutes
    scripts/attack/run.py target/release/siskin heavy      some of it, by name
    scripts/attack/run.py target/release/siskin soak 1200  honest and hostile load together for so many seconds
"""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import crowding
import crowds
import files
import kills
import networks
import odd
import odd_files
import server
import soak
import unfolding

ATTACKS = {attack.__name__: attack for attack in server.ALL + odd.ALL + crowds.ALL + unfolding.ALL + crowding.ALL + files.ALL + odd_files.ALL + networks.ALL + kills.ALL}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if names[:1] == ["soak"]:
        attacks = [lambda binary: soak.soak(binary, float(names[1]) if len(names) > 1 else 1200)]
    else:
        unknown = [name for name in names if name not in ATTACKS]
        if unknown:
            sys.exit(f"there is no attack {unknown[0]}; there are {', '.join(ATTACKS)} and soak")
        attacks = [ATTACKS[name] for name in names or ATTACKS]
    tried = failed = 0
    print(f"{'attack':45} {'tried':>7} {'failed':>7}  seconds")
    for attack in attacks:
        start = time.monotonic()
        result = attack(binary)
        tried, failed = tried + result.tried, failed + len(result.failures)
        print(f"{result.name:45} {result.tried:7} {len(result.failures):7}  {time.monotonic() - start:7.1f}  {'; '.join(result.notes)}", flush=True)
        for failure in result.failures[:5]:
            print(f"    FAILED: {failure}", flush=True)
    print(f"{'all':45} {tried:7} {failed:7}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
