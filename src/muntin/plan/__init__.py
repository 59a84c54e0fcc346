"""Queries to window groups to a synopsis for each; and the plan in words."""

from muntin.plan.choices import CHOICES, Choice, Chosen
from muntin.plan.demand import Demand, Signature, demands_of
from muntin.plan.group import PlanChanges, WindowGroup
from muntin.plan.manager import WindowManager
from muntin.plan.nesting import Nesting, Nestings
from muntin.plan.placement import Placement
from muntin.plan.request import Request, request_of
from muntin.plan.window_chain import WindowChain

__all__ = [
    "CHOICES", "Choice", "Chosen", "Demand", "Nesting", "Nestings", "Placement", "PlanChanges", "Request", "Signature",
    "WindowChain", "WindowGroup", "WindowManager", "demands_of", "request_of",
]  # fmt: skip
