"""Queries as stream engineers write them, each with the right answer by DuckDB: `cases` has the texts, `truth` the tables."""
