"""The analyst's side: answers, views, reports and exports from a release file alone."""

from typing import TYPE_CHECKING

from dpcube.core.lazy import lazily

if TYPE_CHECKING:
    from dpcube.release.answer import Answer, Answers
    from dpcube.release.release import Release
    from dpcube.release.view import View

__all__ = ["Answer", "Answers", "Release", "View"]

__getattr__ = lazily(__name__, {"Answer": "answer", "Answers": "answer", "Release": "release", "View": "view"})
