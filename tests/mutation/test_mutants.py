from __future__ import annotations

import ast

from tests.mutation.__main__ import KILLERS, ROOT
from tests.mutation.equivalents import EQUIVALENT
from tests.mutation.mutants import mutants
from tests.mutation.worker import of_file

CODE = """
class Clip:
    def clip(self, values, low):
        rows: list | None = []
        if low > 0 and not values:
            count(values)
        self.low = (
            low)
        return min(low + 1, 5)  # é
"""


def test_each_change_is_another_program() -> None:
    found = mutants(CODE, [("5)", "6)")])
    changed = [mutant.applied(CODE) for mutant in found]
    for text in ("(low >= 0)", "or", "and (values)", "pass\n        self", "pass\n\n", "max)(low", "(low - 1)", "6)"):
        assert sum(text in code for code in changed) == 1, text
    assert len(found) == len(set(changed)) == len({mutant.name for mutant in found}) == 8
    for mutant, code in zip(found, changed, strict=True):
        assert ast.unparse(ast.parse(code)) != ast.unparse(ast.parse(CODE))
        assert code.count("\n") == CODE.count("\n")
        assert mutant.function == "Clip.clip"


def test_files_and_their_tests_are_there() -> None:
    for file, tests in KILLERS.items():
        assert of_file(file), file
        assert all((ROOT / path).exists() for path in tests if path.startswith("tests/")), tests


def test_what_is_the_same_program_is_still_there() -> None:
    for file, reasons in EQUIVALENT.items():
        known = {mutant.name for mutant in of_file(file)}
        listed = [name for names in reasons.values() for name in names]
        assert set(listed) <= known, f"{file}: {set(listed) - known}"
        assert len(listed) == len(set(listed))
