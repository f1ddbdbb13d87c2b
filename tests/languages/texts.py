"""Texts in both languages that are right, and ways to break them."""

from __future__ import annotations

import random
import re

LISTING_1 = """\
REGISTER STREAM :TopkUsersToContact AS
SELECT ?user
  F(?mentionCount,?followerCount) as ?score
FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]
WHERE{
  WINDOW :W {?user :hasMentions ?mentionCount}
  SERVICE :BKG {?user :hasFollowers ?followerCount}
}
ORDER BY DESC (?score)
LIMIT 1
"""

LISTING_1_1 = """\
REGISTER STREAM <:Influencers> AS
CONSTRUCT {?user a :influentialUser}
WHERE {
  WINDOW W(10m,1m) ON S {?user :hasMentions ?mentionsNumber}
  SERVICE BKG {?user :hasFollowers ?followersCount }
  FILTER (?followersCount > 100000)
}
"""

TRADES = """\
PREFIX ex: <http://example.org/>
# the best of each venue
REGISTER ISTREAM ex:best AS
SELECT DISTINCT BEST ?trade ?venue (?price * ln(1 + ?volume) AS ?score)
FROM NAMED WINDOW :W ON ex:trades [RANGE PT1H STEP 10m OFFSET 5m]
WHERE {
  WINDOW :W {
    ?trade ex:price ?price ; ex:volume ?volume ; ex:at [ ex:venue ?venue ] .
    OPTIONAL { ?trade ex:note ?note FILTER (STRLEN(?note) > 3) }
    { ?trade ex:bid ?limit } UNION { ?trade ex:ask ?limit . ?trade ex:open true }
  }
  FILTER (?price > 10.5 && (?limit IN (1, 2) || !BOUND(?note)) || STRSTARTS(?venue, "X"))
  BIND (UCASE(?venue) AS ?place)
}
PARTITION BY ?place
ORDER BY DESC(?score) LIMIT 10
"""

COUNTED = """\
REGISTER DSTREAM :counted AS
SELECT ?user (COUNT(?tweet) AS ?n) (SUM(?length) / ?n + ?followers AS ?score)
FROM NAMED WINDOW :W ON :tweets [RANGE 100 s STEP 60 s]
WHERE {
  WINDOW :W { ?tweet :by ?user ; :length ?length }
  SERVICE :BKG { ?user :hasFollowers ?followers }
}
GROUP BY ?user
ORDER BY ASC(?score) LIMIT 5
"""

SUMMED = COUNTED.replace("  SERVICE :BKG { ?user :hasFollowers ?followers }\n", "").replace(" + ?followers", "")

RSPQL = (LISTING_1, LISTING_1_1, TRADES, COUNTED, SUMMED)

SQL = (
    """\
SELECT symbol, price*volume AS score
FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR)
ORDER BY score DESC LIMIT 10
""",
    """\
-- the best of each venue
CREATE TEMPORARY VIEW best AS
SELECT window_start, window_end, symbol, rownum
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, venue ORDER BY price * volume DESC) AS rownum
  FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' HOUR, INTERVAL '5' MINUTES))
  WHERE venue <> 'TEST' AND price BETWEEN 1 AND 1000.5
) WHERE rownum <= 3;
""",
    """\
SELECT `order id`, price FROM TUMBLE(TABLE orders, DESCRIPTOR(placed), INTERVAL '90' SECOND)
WHERE CASE WHEN kind IN ('a', 'b') THEN price ELSE 0 END > 1 ORDER BY price FETCH FIRST 5 ROWS ONLY
""",
    """\
SELECT symbol, SUM(price * volume) / SUM(volume) AS average
FROM HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) WHERE venue <> 'TEST'
GROUP BY window_start, window_end, symbol ORDER BY average DESC LIMIT 10
""",
)

_PIECE = re.compile(r"\w+|\s+|.", re.DOTALL)
_ODD = [
    *"{}()[]'\"`<>?:;,.*\\\0\né🙂\ud800", "--", "/*", "#", "SELECT", "WINDOW", "GRAPH", "AS", "FROM", "0", "-1",
    "1e999", "NULL", "COUNT(*)", "?score", "TABLE", "{{", "}}", "||", "^^", "@en", "_:b", "BIND", "FILTER", "9" * 30,
]  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    """Break a text in one to three places: something is taken out, doubled, put in, or put elsewhere."""
    pieces = _PIECE.findall(text)
    for _ in range(chance.randint(1, 3)):
        at, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        match chance.randrange(5):
            case 0:
                pieces[at] = ""
            case 1:
                pieces[at] *= 2
            case 2:
                pieces[at] = chance.choice(_ODD)
            case 3:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces.insert(at, chance.choice(_ODD))
    return "".join(pieces)
