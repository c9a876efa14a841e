"""Questions: counting queries by keyword or expression, and workloads of ranges."""

from dpcube.query.counting import Condition, CountingQueries, CountingQuery, query
from dpcube.query.workload import Workload

__all__ = ["Condition", "CountingQueries", "CountingQuery", "Workload", "query"]
