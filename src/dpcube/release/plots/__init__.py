"""Plots of a release: marginals with error bars, and heat maps of two attributes with the measured boxes.

picture      panels as data: `picture(release, "age", "hours")`
interactive  Plotly back end, for `release.plot(...)` and .html files
static       matplotlib back end, for SVG and PNG files
file         output files
axis, outlines, style   display axes, outlines of boxes, colours and lines
"""

from dpcube.release.plots.file import check_ending, save
from dpcube.release.plots.picture import Bars, HeatMap, Picture, picture

__all__ = ["Bars", "HeatMap", "Picture", "check_ending", "picture", "save"]
