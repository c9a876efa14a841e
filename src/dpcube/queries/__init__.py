"""Counting queries, by keyword or expression, and workloads of range queries."""

from dpcube.queries.counting import Condition, CountingQueries, CountingQuery, query
from dpcube.queries.workload import Workload

__all__ = ["Condition", "CountingQueries", "CountingQuery", "Workload", "query"]
