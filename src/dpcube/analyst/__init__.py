"""The analyst's side: from a released file alone."""

from dpcube.analyst.answer import Answer, Answers
from dpcube.analyst.release import Release
from dpcube.analyst.view import View

__all__ = ["Answer", "Answers", "Release", "View"]
