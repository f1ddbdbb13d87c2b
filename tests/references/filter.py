"""FILTER: a set of ids whose remote value passes a filter, and policies that look at the distance to its threshold.

Zahmatkesh et al., *When a FILTER Makes the Difference in Continuously Answering SPARQL Queries on Streaming and
Quasi-Static Linked Data*, section 3. WSJ, LRU and WBM are ACQUA's, as in the reference of AcquaTop; here the whole
window is kept, and its candidates come in the order of their values, then the later first, then the smaller id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.references.acquatop import Mapping, Policy
from tests.references.objects import Object, ranked


def filter_update(FT: float) -> Policy:
    """Algorithm 1, lines 1-5: the mappings nearest to the filtering threshold."""

    def elect(C: Sequence[Mapping], gamma: int) -> list[Mapping]:
        FD = {mapping.id: abs(mapping.value - FT) for mapping in C}  # lines 1-3
        ordered = sorted(C, key=lambda mapping: FD[mapping.id])  # line 4
        return ordered[:gamma]  # line 5

    return elect


def with_filter(UP: Policy, FT: float, FDT: float) -> Policy:
    """Algorithm 2: the candidates nearer to the threshold than FDT, ranked by another policy (the .F policies)."""

    def elect(C: Sequence[Mapping], gamma: int) -> list[Mapping]:
        F = []
        for mapping in C:  # line 1
            FD = abs(mapping.value - FT)  # line 2
            if FD < FDT:  # line 3
                F.append(mapping)  # line 4
        return UP(F, gamma)  # line 7

    return elect


@dataclass
class FilterJoin:
    """The join of section 3: the proposer WSJ, a policy, and the maintainer of Algorithm 1, lines 6-9."""

    size: int
    slide: int
    passes: Callable[[float], bool]
    R: dict[int, Mapping]
    service: Callable[[int], float]
    policy: Policy
    gamma: int
    window: dict[int, int] = field(default_factory=dict)  # ids, and when the stream spoke of them last
    end: int = 0

    def arrive(self, name: int, t: int) -> None:
        """Take in an object of the stream."""
        self.window[name] = t

    def evaluate(self) -> tuple[list[int], list[int]]:
        """Return the answer of the window that ends next, and the elected set."""
        self.end = self.end + self.slide if self.end else self.size
        self.window = {name: t for name, t in self.window.items() if t >= self.end - self.size}
        in_order = ranked(Object(self.R[name].value, t, name) for name, t in self.window.items())
        C = [replace(self.R[o.id], t=o.time) for o in in_order]  # WSJ
        E = self.policy(C, self.gamma)
        for mapping in E:  # line 6
            fresh = self.service(mapping.id)  # line 7
            self.R[mapping.id].value, self.R[mapping.id].refreshed = fresh, self.end  # line 8
        answer = sorted(name for name in self.window if self.passes(self.R[name].value))
        return answer, [mapping.id for mapping in E]
