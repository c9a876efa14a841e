"""Planning: predicted errors of a release, from public facts only, before any budget is spent."""

from dpcube.plan.advice import Advice
from dpcube.plan.draw import draw
from dpcube.plan.planning import Plan, plan
from dpcube.plan.predict import Prediction

__all__ = ["Advice", "Plan", "Prediction", "draw", "plan"]
