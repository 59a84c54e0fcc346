"""Statements about views, carried out: a join that feeds a view is registered and dropped with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muntin.engine.views import Views
from muntin.join_query import JoinQuery
from muntin.sql import AlterView, CreateView, DropView, ExplainView, SelectView, Statement
from muntin.view_query import ViewQuery

AddJoin = Callable[[str, JoinQuery], None]
DropJoin = Callable[[str], None]  # does nothing if there is none


def run_view(statement: Statement, views: Views, add: AddJoin, drop: DropJoin) -> Any:
    """What the statement gives; one that raises has changed nothing."""
    match statement:
        case CreateView(view):
            _create(view, views, add)
        case DropView(name):
            if name in views.at_work:
                drop(name)
            views.drop(name)
        case AlterView(name, indexing):
            return views.alter(name, indexing)
        case ExplainView(name):
            return views.explain(name)
        case SelectView(select):
            return views.select_many([select])[0]
    return None


def _create(view: ViewQuery, views: Views, add: AddJoin) -> None:
    views.create(view)
    if not isinstance(view.source, JoinQuery):
        return
    try:
        add(view.name, view.source)
    except BaseException:
        views.release(view.name)
        raise
