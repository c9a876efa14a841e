"""The analyst's side: from a released file alone."""

from typing import TYPE_CHECKING

from dpcube.lazy import lazily

if TYPE_CHECKING:
    from dpcube.analyst.answer import Answer, Answers
    from dpcube.analyst.release import Release
    from dpcube.analyst.view import View

__all__ = ["Answer", "Answers", "Release", "View"]

__getattr__ = lazily(__name__, {"Answer": "answer", "Answers": "answer", "Release": "release", "View": "view"})
