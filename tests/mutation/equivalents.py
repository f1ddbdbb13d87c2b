"""Changes that make the same program, or one that no test can tell from it: by file a reason, and the changes."""

from __future__ import annotations

EQUIVALENT: dict[str, dict[str, list[str]]] = {
    "engine/ranking.py": {
        "plans again when it is asked: costs time only": [
            "RankingGroup.algorithm: self._planned = True -> pass",
        ],
        "makes room one event sooner": [
            "RankingGroup._compact: self.store.size > share * len(self.algorithm.kept()) + spare"
            " -> (self.store.size >= share * len(self.algorithm.kept()) + spare)",
        ],
        "looks for ties in vain: costs time only": [
            "RankingGroup._in_order: self.store.tied() if len(picks.slots) else None -> (self.store.tied())",
        ],
        "the same is found in another way": [
            "RankingGroup._begin: columns.position[~np.isnan(columns.merit)] if events is None else events"
            " -> (columns.position[~np.isnan(columns.merit)])",
            "RankingGroup._begin: first >= schedule.next_start -> (first > schedule.next_start)",
            "RankingGroup._begin: first < schedule.first > schedule.closed_to"
            " -> (first <= schedule.first > schedule.closed_to)",
            "RankingGroup._count: seen.newest = counts.newest -> pass",
            "RankingGroup._exact: due.start >= exact_from -> (due.start > exact_from)",
            "RankingGroup._blocks: len(picks.slots) > self.store.size -> (len(picks.slots) >= self.store.size)",
        ],
        "nobody waits for an event before the first that there could be": [
            "RankingGroup._begin: not waiting or first == ALWAYS -> (not waiting and first == ALWAYS)",
        ],
        "where there are no partitions, none is known": [
            "RankingGroup._columns: 1 if part is None else len(self.store.partitions.values) + 1"
            " -> (len(self.store.partitions.values) + 1)",
        ],
        "only count windows read it": ["RankingGroup._columns: len(merit) if counts else 0 -> (len(merit))"],
        "events that are counted never come late: the next windows begin with those that came": [
            "RankingGroup._batch_counts: self.ranking.counts or not self.schedules"
            " -> (self.ranking.counts and (not self.schedules))",
        ],
        "Arrow does not encode twice": [
            "_numbers: ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()"
            " -> (ids.dictionary_encode())",
        ],
        "no columns look alike in all answers": [
            "RankingGroup._look: select and payload is not None -> (select or payload is not None)",
        ],
        "whose next window begins behind the newest event is exact": [
            "RankingGroup.backfill_for: low >= now -> (low > now)",
        ],
        "a query that is exact from a place on, or was filled there, has seen what lies there": [
            "RankingGroup.backfill_for: self.unseen_to < start < now -> (self.unseen_to <= start < now)",
        ],
        "a late event at the end of what is missed comes when all of that is over": [
            "RankingGroup.fill: high > self.unseen_to -> (high >= self.unseen_to)",
        ],
    },
    "algorithms/staircase/staircase.py": {
        "what needs no proof is proven as well": [
            "Staircase.answer: replace(found, proven=self._proven(due, found, unsure)) if unsure else found"
            " -> (replace(found, proven=self._proven(due, found, unsure)))",
            "Staircase._unsure: due.start < exact_from -> (due.start <= exact_from)",
        ],
        "one round more, over no pane": [
            "Staircase.sealed: panes.base if self.sealed_to == NEVER else int(panes.number(np.int64(self.sealed_to)))"
            " -> (int(panes.number(np.int64(self.sealed_to))))",
        ],
        "each place is there once": ["Staircase.check: np.diff(order) > 0 -> (np.diff(order) >= 0)"],
        "of open panes the band has nothing": [
            "Staircase._count_anew: self.sealed - base - 1 -> (self.sealed - base + 1)",
        ],
        "costs memory for a while": [
            "Staircase._bands: room - len(slot) -> (room + len(slot))",
            "Staircase._pieces: len(due) == 0 -> (len(due) != 0)",
        ],
        "in more threads, or in fewer: costs time only": [
            "Staircase._sort_runs: len(slots) < PARALLEL_SLOTS or len(ends) <= THREADS"
            " -> (len(slots) < PARALLEL_SLOTS and len(ends) <= THREADS)",
            "Staircase._sort_runs: len(ends) <= THREADS -> (len(ends) < THREADS)",
            "Staircase._sort_runs: len(slots) < PARALLEL_SLOTS -> (len(slots) <= PARALLEL_SLOTS)",
        ],
    },
    "algorithms/panes.py": {
        "a short cut: what follows finds nothing to add": [
            "Panes.cover: self.cuts[0] <= low -> (self.cuts[0] < low)",
        ],
        "what is filled begins at a cut, so a pane that ends where it ends is whole": [
            "Panes.restore: ends > high -> (ends >= high)",
        ],
        "the same cuts, made in another way": [
            "Panes._between: (high - low) // grid + 1 -> ((high - low) // grid - 1)",
            "Panes._between: (high - low) // grid + 1 <= listed -> ((high - low) // grid + 1 < listed)",
            "Panes._beyond: int(self.cuts[0]) - 1 -> (int(self.cuts[0]) + 1)",
        ],
        "one pane more, where there was no event or all is forgotten": [
            "Panes._beyond: low < self.cuts[0] -> (low <= self.cuts[0])",
            "Panes.restore: high - 1 -> (high + 1)",
        ],
        "without an event nothing is lost, as is found window by window": [
            "Panes.exact_from: frontier == NEVER or len(self.cuts) == 0 -> (frontier == NEVER and len(self.cuts) == 0)",
        ],
        "looks at more windows at once, all of them before the first pane: costs time only": [
            "Panes.exact_from: min -> (max)",
        ],
        "a window before all panes is not due": ["Panes.worst_losses: first < behind -> (first <= behind)"],
    },
    "algorithms/staircase/prefilter.py": {
        "the prefilter drops what may be dropped: costs time only": [
            "is_sparse: columns.partitions > 1 -> (columns.partitions >= 1)",
            "is_sparse: len(columns.merit) < count * k -> (len(columns.merit) <= count * k)",
            "is_sparse: panes.cover(low, high) -> pass",
            "_filter: (high - low) * columns.partitions > MOST_THRESHOLDS"
            " -> ((high - low) * columns.partitions >= MOST_THRESHOLDS)",
            "_filter: high - low -> (high + low)",
            "_thresholds: pane >= 0 -> (pane > 0)",
        ],
        "in other pieces, or by other threads: costs time only": [
            "candidates: columns.partitions > 1 -> (columns.partitions >= 1)",
            "_filter: n >= PARALLEL_ROWS -> (n > PARALLEL_ROWS)",
            "_filter: columns.partitions == 1 -> (columns.partitions != 1)",
        ],
        "more or less room: costs memory or time for a while": [
            "_thresholds: high - low -> (high + low)",
            "_pool: max(4 * k, 64) if k <= 65_536 else 2 * k -> (max(4 * k, 64))",
            "_pool: max(4 * k, 64) if k <= 65_536 else 2 * k -> (2 * k)",
            "_pool: k <= 65_536 -> (k < 65536)",
            "_pool: max -> (min)",
            "_pool: min -> (max)",
            "_Part.__init__: stop - start if counts.late_before > NEVER else 0 -> (stop - start)",
            "_Part.__init__: counts.late_before > NEVER -> (counts.late_before >= NEVER)",
            "_Part.__init__: stop - start -> (stop + start)",
        ],
        "other guesses, or none; they are verified: costs time only": [
            "_Part.scan: k + 4 * isqrt(k) + 8 if simple else 0 -> (0)",
            "_Part.scan: k + 4 * isqrt(k) + 8 -> (k + 4 * isqrt(k) - 8)",
            "_Part.scan: self.columns.partitions == 1 -> (self.columns.partitions != 1)",
            "_Part._process: guesses[1][0] = -1 -> pass",
        ],
        "of what is stored twice, where ids count once, one is shown": ["with_ties: taken[found] = True -> pass"],
        "a few others come along": ["with_ties: () if columns.part is None else (columns.part,) -> (())"],
        "a pane begins there, which is covered a moment later": [
            "with_ties: position < panes.cuts[-1] -> (position <= panes.cuts[-1])",
        ],
        "the first row of all has no guess": ["_Part.scan: begun <= kernel.FAILED -> (begun < kernel.FAILED)"],
        "no merit reaches these thresholds; times become floats, whose order is the same": [
            "_Part.scan: 2**63 - 1 -> (2 ** 63 + 1)",
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
        "no moment near the beginning of 1970 is out of range": [
            "datetime_of: microseconds < 0 -> (microseconds <= 0)",
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
