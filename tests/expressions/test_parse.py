# ruff: noqa: E501
from __future__ import annotations

import random
import string

import pytest

from skyband.errors import ExpressionError
from skyband.expressions import parse
from skyband.expressions.parse import MAX_BRACKETS, MAX_LENGTH
from skyband.expressions.tree import Call, Column

from . import nasty


def error(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


def test_equal_trees_are_equal_expressions() -> None:
    assert parse("a+b") == parse(" a + b ") == parse("(a) + (b)")
    assert hash(parse("a+b")) == hash(parse("a + b"))
    assert parse("a+b") != parse("b+a")
    assert parse("a+b").text == "a+b"
    assert str(parse("a+b")) == "a + b"


@pytest.mark.parametrize(("one", "two"), [("1", "1.0"), ("1", "TRUE"), ("'1'", "1"), ("0.0", "-0.0"), ("a", "A")])
def test_what_only_looks_alike_is_not_equal(one: str, two: str) -> None:
    assert parse(one) != parse(two)


def test_columns_are_sorted_and_named_once() -> None:
    assert parse("b + a * b + `x.y`").columns == ("a", "b", "x.y")


def test_precedence_is_sqls() -> None:
    assert str(parse("a + b * c")) == "a + (b * c)"
    assert str(parse("NOT a = b AND c OR d")) == "((NOT (a = b)) AND c) OR d"
    assert str(parse("-a * b")) == "(-a) * b"
    assert str(parse("a - -1")) == "a - (-1)"


def test_long_chains_of_and_are_one_call() -> None:
    tree = parse(" AND ".join(["a"] * 1000)).tree
    assert isinstance(tree, Call)
    assert tree.args == (Column("a"),) * 1000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a == b", "a = b"), ("a != b", "a <> b"), ("a IS NOT NULL", "NOT (a IS NULL)"), ("!a", "NOT a"),
        ("a IS TRUE", "a <=> TRUE"), ("a IS UNKNOWN", "a IS NULL"), ("a IS DISTINCT FROM b", "NOT (a <=> b)"),
        ("a NOT IN (1, 2)", "NOT (a IN (1, 2))"), ("a NOT LIKE 'x'", "NOT (a LIKE 'x')"),
        ("IF(a, 1)", "CASE WHEN a THEN 1 ELSE NULL END"), ("CASE a WHEN 1 THEN 2 END", "CASE a WHEN 1 THEN 2 ELSE NULL END"),
        ("log(a)", "ln(a)"), ("POW(a, 2)", "power(a, 2)"), ("mod(a, 2)", "a % 2"), ("a || b", "concat(a, b)"),
        ("nvl(a, b)", "coalesce(a, b)"), ("isnull(a)", "a IS NULL"), ("a::bigint", "CAST(a AS BIGINT)"),
        ("TRY_CAST(a AS int)", "CAST(a AS INT)"), ("-5", "-5"), ("- -5", "5"), ("-9223372036854775808", "-9223372036854775808"),
        ("1e3", "1000.0"), (".5", "0.5"), ("'it''s'", r"'it\'s'"), (r"'it\'s'", r"'it\'s'"), ('"x"', "'x'"),
        ("`a``b`", "`a``b`"), ("`end`", "`end`"), ("+a", "a"),
    ],
)  # fmt: skip
def test_normalised_text(text: str, shown: str) -> None:
    assert str(parse(text)) == shown
    assert parse(shown) == parse(text)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("1{:}", "cannot be read", None), ("0f(a)", "CAST to FLOAT is not allowed", None), ("EXECUTE s", "", None), ("ADD JAR x", "", None),
        ("", "empty", None), ("  ", "empty", None), ("-- x", "empty", None),
        ("a +", "something is missing at '+'", 2), ("(a", "expecting )", 1), ("a)", "')' is not expected", 1),
        ("'abc", "quote closed", None), ("`a", "quote closed", None),
        ("a; b", "';' is not allowed", 1), ("a;", "';' is not allowed", 1),
        ("a /* x */ + b", "comments are not allowed", 0), ("a --", "comments are not allowed", 0), ("/**/a", "comments", 4),
        ("1 + rand()", "the function rand() is not allowed (did you mean round?)", 4),
        ("sum(a)", "the function sum() is not allowed", 0), ("count(*)", "count() is not allowed", 0),
        ("java_method('x')", "java_method() is not allowed", 0), ("reflect(a)", "reflect() is not allowed", 0),
        ("sum(a) OVER ()", "a window function (OVER) is not allowed", 0),
        ("(SELECT 1)", "is not", None), ("SELECT a", "is not", None), ("a IN (SELECT 1)", "is not", None),
        ("EXISTS(SELECT 1)", "", None), ("DROP TABLE x", "is not", None),
        ("abs(x -> x + 1)", "a function with -> is not allowed", 4), ("a[1]", "an element in [ ] is not allowed", 0),
        ("a.b", "if the column is called 'a.b', write `a.b`", 0), ("a.b.c", "write `a.b.c`", 0),
        ("a AS b", "an alias", 0), ("a b", "an alias", 0), ("*", "'*' as a value", 0), ("a.*", "'*' as a value", 2),
        ("a & b", "'bitwise and' is not allowed", 0), ("a ILIKE 'x'", "is not allowed", 0), ("a RLIKE 'x'", "is not allowed", 0),
        ("'a' 'b'", "a text right after a text", 0), ("(a, b)", "a list outside of IN", 1), (":p", "a placeholder", None),
        ("?", "a placeholder", None), ("@x", "a parameter", None), ("INTERVAL 1 DAY", "'interval' is not allowed", None),
        ("DATE '2024-01-01'", "CAST to DATE is not allowed; allowed are DOUBLE, BIGINT, INT, STRING", None),
        ("CAST(a AS BOOLEAN)", "CAST to BOOLEAN is not allowed", 5), ("CAST(a AS DECIMAL(10, 2))", "is not allowed", 5),
        ("CAST(a AS VARCHAR(3))", "write STRING", 10), ("CAST(a AS STRING COLLATE x)", "is not allowed", 5), ("1.5BD", "is not allowed", None),
        ("9223372036854775808", "does not fit 64 bits; write 9223372036854775808.0", 0),
        ("-9223372036854775809", "does not fit 64 bits", 1), ("1e999", "is not a number that fits 64 bits", 0),
        ("0x1F", "is not allowed", None), ("ln()", "ln() takes 1 arguments and got 0", 0), ("power(a)", "takes 2 arguments and got 1", 0),
        ("least(a)", "takes 2 or more arguments and got 1", 0), ("log(a, b, c)", "takes 2 arguments and got 3", 0),
        ("a LIKE b", "the pattern of LIKE must be a text", 0), (r"a LIKE 'x\\y'", "a backslash stands before", 7),
        (r"a LIKE 'x\\'", "a backslash stands before", 7), ("a LIKE 'x' ESCAPE '/'", "'escape' is not allowed", 0),
        ("a LIKE ANY ('x')", "the pattern of LIKE must be a text", 0), ("a IS 5", "IS takes [NOT] NULL, TRUE or FALSE", 0),
        ("'\ud800'", "half a character", 1),
        ("a BETWEEN SYMMETRIC 1 AND 2", "is not", None), ("count(DISTINCT a)", "count() is not allowed", 0),
        ("abs(DISTINCT a)", "'distinct' is not allowed", 13), ("x.abs(a)", "a field or function after '.'", 0),
    ],
)  # fmt: skip
def test_refused_by_name_and_place(text: str, message: str, position: int | None) -> None:
    problem = error(text)
    assert message in str(problem)
    if position is not None:
        assert problem.position == position
        assert str(problem).splitlines()[-1] == "    " + " " * position + "^"


def test_the_message_says_what_is_allowed() -> None:
    assert "allowed are columns, literals" in str(error("rand()"))
    assert "greatest" in str(error("rand()"))


def test_the_caret_points_right_in_a_text_of_several_lines() -> None:
    problem = error("a +\n  rand()")
    assert str(problem).splitlines()[-2:] == ["    a +   rand()", "          ^"]


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "NOT " * 2400 + "a", "- " * 4900 + "a", "!" * 9000 + "a", "+".join("a" * 4000), "ln(" * 3000, "[" * 9000,
     "CASE WHEN a THEN " * 500, "a" + "::int" * 1500, "a" + "<a" * 3000, "(end+" * 300 + "a", "CAST(a AS " + "struct<a:" * 500],
)  # fmt: skip
def test_deep_texts_are_refused_and_do_not_crash(text: str) -> None:
    assert "deep" in str(error(text)) or "nested" in str(error(text))


def test_limits_are_the_ones_stated() -> None:
    nested = "(" * MAX_BRACKETS + "a" + ")" * MAX_BRACKETS
    assert parse(nested) == parse("a")
    assert f"at most {MAX_BRACKETS} levels" in str(error(f"({nested})"))
    assert "10,001 characters; at most 10,000" in str(error("a" * (MAX_LENGTH + 1)))
    assert parse("+".join("a" * 100)).columns == ("a",)
    assert "at most 100 levels" in str(error("+".join("a" * 102)))


def test_generated_trees_survive_their_own_text() -> None:
    random_ = random.Random(7)
    for _ in range(500):
        expression = parse(nasty.expression(random_, random_.choice(list(nasty.FORMS)), 3))
        assert parse(str(expression)) == expression, str(expression)


@pytest.mark.parametrize(
    "name", ["end", "if", "case", "date", "select", "a b", "a.b", "`", "1", "não", "null", "current_date"]
)
def test_any_name_can_be_a_column(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    assert parse(quoted).columns == (name,)
    assert parse(str(parse(quoted))) == parse(quoted)


def test_garbage_raises_nothing_but_expression_errors(caplog: pytest.LogCaptureFixture) -> None:
    seed = random.randrange(2**32)
    random_ = random.Random(seed)
    words = ["SELECT", "CASE", "WHEN", "END", "NOT", "(", ")", "a", "1", "'x'", "`", "'", ",", "->", "::", "IN", "IS", "NULL",
             "AND", "CAST", "AS", "int", "<", "<=>", "-", "/*", "--", ";", "*", ".", "[", "]", "{", "}", "$", "@", "OVER", "IF",
             "BETWEEN", "LIKE", "\\", "\n", "é", "😀", "\0", "ln(", "FROM", "struct<", "map", "interval", "values", "1e"]  # fmt: skip
    for n in range(3000):
        if n % 3 == 0:
            text = "".join(random_.choice(string.printable) for _ in range(random_.randrange(1, 60)))
        elif n % 3 == 1:
            text = " ".join(random_.choice(words) for _ in range(random_.randrange(1, 15)))
        else:
            characters = list(nasty.expression(random_, random_.choice(list(nasty.FORMS)), 2))
            for _ in range(random_.randrange(1, 4)):
                place = random_.randrange(len(characters) + 1)
                characters[place : place + random_.randrange(3)] = random_.choice([*words, ""])
            text = "".join(characters)
        try:
            expression = parse(text)
        except ExpressionError:
            continue
        except Exception as problem:
            pytest.fail(f"seed {seed}: {text!r} raised {problem!r}")
        assert parse(str(expression)) == expression, f"seed {seed}: {text!r}"
    assert not caplog.records, "sqlglot's own warnings would fill the log with hostile text"


def test_the_text_of_a_deep_expression_is_written_in_one_go() -> None:
    text = "a"
    for _ in range(28):
        text = f"abs({text} + 1)"
    assert str(parse(text)) == text  # each level once: doubling them would never end
