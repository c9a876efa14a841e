"""The paper's formal results as functions: the public names of `dpcube.research.theory`, whose docstring is a map."""

try:
    from dpcube.research.theory import *  # noqa: F403
    from dpcube.research.theory import __all__ as __all__
except ModuleNotFoundError as error:
    msg = f"dpcube.theory needs {str(error.name).partition('.')[0]}: pip install 'dpcube[research]'"
    raise ModuleNotFoundError(msg, name=error.name) from None
