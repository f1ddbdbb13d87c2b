"""The process that goes on with a history from a snapshot: both come in as bytes, what is seen goes out."""

from __future__ import annotations

import pickle
import sys

import skyband as sb
from tests.simulation import engines

if __name__ == "__main__":
    blob, history, steps = pickle.load(sys.stdin.buffer)
    rest = engines.go_on(sb.Monitor.restore(blob), history, steps, check=True, new_process=False)
    sys.stdout.buffer.write(pickle.dumps(rest))
