"""Pictures of a release: marginals with error bars, maps of two attributes with the boxes that were counted.

picture      what is drawn, as numbers: `picture(release, "age", "hours")`
interactive  Plotly figures, behind `release.plot(...)` and .html files
static       SVG and PNG by matplotlib
file         a picture as a new file
axis, outlines, colours   what they are made of
"""

from dpcube.release.plots.file import check_ending, save
from dpcube.release.plots.picture import Bars, HeatMap, Picture, picture

__all__ = ["Bars", "HeatMap", "Picture", "check_ending", "picture", "save"]
