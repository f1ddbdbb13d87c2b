from __future__ import annotations

import ast

from tests.mutation.__main__ import KILLERS, ROOT
from tests.mutation.mutants import mutants

CODE = """
def clip(values, low):
    if low > 0 and not values:
        count(values)
    return min(low + 1, 5)  # é
"""


def test_each_change_is_another_program() -> None:
    found = [mutant.applied(CODE) for mutant in mutants(CODE)]
    for text in ("(low >= 0)", "or", "and (values)", "pass", "max)(low", "(low - 1)"):
        assert sum(text in code for code in found) == 1, text
    assert len(found) == len(set(found)) == 6
    for code in found:
        assert ast.unparse(ast.parse(code)) != ast.unparse(ast.parse(CODE))


def test_files_and_their_tests_are_there() -> None:
    for file, killers in KILLERS.items():
        assert list(mutants((ROOT / "src" / "skyband" / file).read_text())), file
        for tests in killers:
            assert all((ROOT / path).exists() for path in tests if path.startswith("tests/")), tests
