"""What a checkpoint saves of a catalog, and a catalog made of it again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.arrow_bytes import read_sound_schema
from muntin.described import COUNT, WHOLE, Absent, Each, Maybe, check_shape
from muntin.engine.catalog import Catalog
from muntin.join.registration import JoinRegistration
from muntin.join_query import JoinQuery
from muntin.query import Query
from muntin.sql import parse_query, parse_view
from muntin.store.saved import Saved
from muntin.stream import Stream
from muntin.view.coverage import Promise
from muntin.view_query import ViewQuery

Description = dict[str, Any]
Named = dict[str, Any]  # arrays by path


_SHAPE = {
    "streams": [{"name": str, "time": str, "delay": COUNT, "ahead": Absent(Maybe(COUNT)), "state": dict}],
    "queries": [str],
    "joins": Absent(dict),
    "view_operators": Absent(Each({"text": str})),
    "views": Absent(
        Each({"now": Maybe(WHOLE), "epoch": COUNT, "known_from": Maybe(WHOLE), "id": Maybe(str)})
    ),
}


def save(catalog: Catalog) -> tuple[Description, Named]:
    """Streams, queries and state."""
    catalog.views.refuse_pending()
    description: Description = {"streams": [], "queries": list(catalog.stream_of)}
    arrays: Named = {}
    for number, operator in enumerate(catalog.operators.values()):
        stream, (state, named) = operator.stream, operator.snapshot()
        description["streams"].append(
            {
                "name": stream.name,
                "time": stream.time,
                "delay": stream.delay,
                "ahead": stream.ahead,
                "state": state,
            }
        )
        arrays[f"{number}/schema"] = pa.array([stream.schema.serialize().to_pybytes()], pa.binary())
        arrays |= _below(f"{number}/", named)
    description["joins"], joined = catalog.joins.snapshot()
    description["view_operators"], held = catalog.views.snapshot()
    description["views"] = catalog.views.promises()
    return description, arrays | _below("joins/", joined) | held


def load(catalog: Catalog, description: Description, arrays: Named, incomplete_views: bool) -> None:
    """Fill an empty catalog; with `incomplete_views` also if archives do not hold what they did."""
    check_shape(description, _SHAPE, "the description")
    promises = {name: Promise(**each) for name, each in description.get("views", {}).items()}
    for number, saved in enumerate(description["streams"]):
        _load_stream(catalog, saved, _under(f"{number}/", arrays))
    if "joins" in description:
        views = _load_joins(catalog, description["joins"], _under("joins/", arrays))
        for view in views:
            registration = catalog.joins.registrations[view.name]
            promise = promises.get(view.name, Promise(_last_update(view, registration)))  # 0.1 made none
            catalog.views.resume(view, promise, incomplete_views).feed(registration)
    held = description.get("view_operators", {})
    catalog.views.restore(held, arrays, catalog.streams, promises, incomplete_views)
    catalog.stream_of = {name: catalog.stream_of[name] for name in description["queries"]}


def _load_stream(catalog: Catalog, saved: Description, arrays: Named) -> None:
    schema = read_sound_schema(Saved(arrays).column("schema", {pa.binary()}, 1)[0].as_py())
    stream = Stream(saved["name"], schema, saved["time"], saved["delay"], saved.get("ahead"))
    operator = catalog.operators[stream.name] = catalog.make_operator(stream)
    texts = {name: each["text"] for name, each in saved["state"]["registrations"].items()}
    parsed = {name: parse_query(text, {stream.name: stream}) for name, text in texts.items()}
    queries = {name: query for name, query in parsed.items() if isinstance(query, Query)}
    operator.restore(saved["state"], arrays, queries)
    catalog.stream_of |= dict.fromkeys(queries, stream.name)


def _load_joins(catalog: Catalog, saved: Description, arrays: Named) -> list[ViewQuery]:
    """Have the joins; the views that they feed."""
    texts = {name: each["text"] for name, each in saved["registrations"].items()}
    views = {name: view for name, text in texts.items() if (view := parse_view(text, catalog.streams))}
    joins = {name: view.source for name, view in views.items() if isinstance(view.source, JoinQuery)}
    for name in texts.keys() - views.keys():
        query = parse_query(texts[name], catalog.streams)
        assert isinstance(query, JoinQuery)
        joins[name] = query
    joins = {name: joins[name] for name in texts}
    catalog.joins.restore(saved, arrays, joins)
    catalog.stream_of |= {name: query.left.stream.name for name, query in joins.items()}
    return list(views.values())


def _last_update(view: ViewQuery, registration: JoinRegistration) -> int | None:
    """The instant that a view's archive must have reached, by what its join has given out."""
    reached = registration.emitted_to
    return None if reached is None or reached == registration.began_at else reached - reached % view.every


def _below(prefix: str, arrays: Named) -> Named:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Named) -> Named:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
