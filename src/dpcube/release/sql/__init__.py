"""SQL on a release: queries on a table `cube` of estimated counts.

A query passes through these modules:

    parse          parser: an allow list over syntax trees; names, PIVOT, DESCRIBE
    from_clause    name resolution: rows of the cube, results of other SELECTs, lookup joins
    rewrite        rewrite of SELECT statements over the cube into weighted aggregates; `aggregates` writes their SQL
    predicates     cuts of the axes at constants; constancy of expressions inside bins
    axes           discretisation of an axis into pieces; `relation` weights their combinations by estimated counts
    engine         sandboxed DuckDB, with its function for order statistics (min, max, quantiles)
    error_terms    columns whose errors can be stated: ratios of linear combinations of aggregates
    errors         standard errors and confidence intervals of columns
    linear_errors  standard errors of linear functionals of rows; `cuts` bounds those that split a bin
    run            the steps above, for each SELECT of a query
"""

from dpcube.release.sql.run import run

__all__ = ["run"]
