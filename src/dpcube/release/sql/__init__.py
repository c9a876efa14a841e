"""SQL on a release: the cube is a table `cube`, and aggregates are of estimated counts.

A query goes through these modules, and an Arrow table comes out:

    parse       the text becomes a tree; what is not on the list of allowed constructs is refused
    scope       each SELECT is told to read rows of the cube or results of another SELECT; `names` finds its attributes
    rewrite     a SELECT on rows becomes one on weighted rows; `aggregates` writes its sums, `needs` notes its columns
    constancy   expressions are evaluated to see where they change: there axes are cut, or the query is refused
    relation    the weighted rows, made from the estimate; `axes` cuts each attribute into pieces
    engine      DuckDB, locked, runs the SELECT; `order_statistics` is its function for min, max and quantiles
    errors      standard errors and intervals of results; `products` and `cuts` prepare them
"""

from dpcube.release.sql.run import run

__all__ = ["run"]
