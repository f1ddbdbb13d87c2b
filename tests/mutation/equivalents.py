"""Changes that make the same program, or one that no test can tell from it: by file a reason, and the changes."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[str, list[str]]] = {
    "algorithms/staircase/panes.py": {
        "a short cut: what follows finds nothing to add": [
            "Panes.cover: self.cuts[0] <= low -> (self.cuts[0] < low)",
        ],
        "all is settled once more, though nothing was cut: costs time only": [
            "Panes.refine: len(new) > 0 -> (len(new) >= 0)",
        ],
        "what is filled begins at a cut, so a pane that ends where it ends is whole": [
            "Panes.restore: ends > high -> (ends >= high)",
        ],
        "the same cuts, made in another way": [
            "Panes._between: (high - low) // grid + 1 -> ((high - low) // grid - 1)",
        ],
    },
    "algorithms/staircase/prefilter.py": {
        "the one partition has number 0": ["_thresholds: partitions > 1 -> (partitions >= 1)"],
        "the prefilter drops what may be dropped: costs time only": [
            "is_sparse: columns.partitions > 1 -> (columns.partitions >= 1)",
        ],
    },
    "files/durable.py": {
        "one moment among 3,600 seconds": [
            "Folder.clean: time.time() - draft.stat().st_mtime > ABANDONED"
            " -> (time.time() - draft.stat().st_mtime >= ABANDONED)",
        ],
        "only Windows needs a file that is open for writing": [
            "_sync: os.O_RDONLY if folder else os.O_RDWR -> (os.O_RDONLY)",
        ],
    },
    "spark/checkpoint.py": {
        "the state of the batch is written anew a moment later, and a replay does not read it": [
            "Checkpoint.save: n > batch -> (n >= batch)",
        ],
        "the digest is read from the file instead": [
            "Checkpoint.save: self._saved = batch, snapshot.digest(blob) -> pass",
        ],
        "a status that is not there is read as a damaged one, which is empty too": [
            'Checkpoint.status: {} if self.shown_at() is None else self._get("status.json")'
            " -> (self._get('status.json'))",
        ],
    },
    "spark/loop.py": {
        "the state is read again before every batch: costs time only": [
            "MicroBatchLoop.__call__: batch_id - 1 -> (batch_id + 1)",
            "MicroBatchLoop.__call__: self._at = batch_id -> pass",
        ],
        "a replayed batch may take as long as it took before": [
            "MicroBatchLoop._process: entry[\"batchId\"] < batch_id -> (entry['batchId'] <= batch_id)",
        ],
        "`doubt` compares again, and all rows are at least as many as those that came back": [
            "MicroBatchLoop._doubt: 2 * progress.ahead > progress.candidate_rows"
            " -> (2 * progress.ahead >= progress.candidate_rows)",
            "MicroBatchLoop._doubt: df.count() if 2 * progress.ahead > progress.candidate_rows"
            " else progress.candidate_rows -> (df.count())",
        ],
    },
    "spark/monitor_job.py": {
        "there is nothing in an empty interval": [
            "MonitorJob.advance: wanted.low < wanted.high -> (wanted.low <= wanted.high)",
        ],
    },
    "spark/sinks/files.py": {
        "looks again for drafts, of which there are none": ["Files.write: self._clean = True -> pass"],
    },
    "spark/sinks/memory.py": {
        "the same rows in a new table: costs time only": [
            "_without: part if pc.all(others).as_py() else part.filter(others) -> (part.filter(others))",
        ],
        "merges a little less: costs time only": [
            "_merged: len(parts[-1]) <= 2 * len(fresh) -> (len(parts[-1]) < 2 * len(fresh))",
        ],
    },
    "spark/sinks/sql.py": {
        "SQLAlchemy begins a transaction by itself": ["Sql._connection: connection.begin() -> pass"],
    },
}
