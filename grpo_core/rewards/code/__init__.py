"""Unit-test rewards: a completion's program against the tests of its row.

Three processes take part, and the program never meets what it is tested for. The checking one holds
the tests; programs run in others, forked from a process that has seen no test, without network,
files or other processes; only plain data passes between.
"""
