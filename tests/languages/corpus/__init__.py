"""Queries as stream engineers write them, and what DuckDB answers: `cases` has the texts, `truth` the tables."""
