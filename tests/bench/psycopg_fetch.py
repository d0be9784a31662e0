"""Fetches the rows of a query in binary through a server's cursor, and prints how many there are and the first column's sum.

Usage: psycopg_fetch.py DSN QUERY
"""

import sys

import psycopg

with psycopg.connect(sys.argv[1]) as connection:
    count = total = 0
    with connection.cursor(name="fetched", binary=True) as cursor:
        cursor.execute(sys.argv[2])
        while rows := cursor.fetchmany(10_000):
            count += len(rows)
            total += sum(row[0] for row in rows)
    print(count, total)
