"""A Tesseract without its package: the JSON that `tesseract-core` 1.15 speaks, of an `apply` and its two products."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

__all__ = ["stand_in"]


def _plain(tree: Any) -> Any:
    """Return a tree with NumPy's arrays in place of those of JSON."""
    if isinstance(tree, dict) and tree.get("object_type") == "array":
        data = base64.b64decode(tree["data"]["buffer"], validate=True)
        return np.frombuffer(data, tree["dtype"]).reshape(tree["shape"])
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return [_plain(value) for value in tree] if isinstance(tree, list) else tree


def _as_json(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _as_json(value) for key, value in tree.items()}
    if isinstance(tree, (np.ndarray, np.generic)):
        data = {"buffer": base64.b64encode(tree.tobytes()).decode(), "encoding": "base64"}
        return {"object_type": "array", "shape": list(tree.shape), "dtype": tree.dtype.name, "data": data}
    return tree


def stand_in(
    differentiable: tuple[list[str], list[str]], endpoints: dict[str, Callable[..., dict[str, Any]]]
) -> Starlette:
    """Return an app that answers by functions of dicts, and declares which inputs and outputs are differentiable."""
    schemas = {
        f"Apply{which}Schema": {"differentiable_arrays": {name: {} for name in names}}
        for which, names in zip(("Input", "Output"), differentiable, strict=True)
    }

    def reference(which: str) -> Any:
        return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/Apply{which}Schema"}}}}

    async def schema(request: Request) -> JSONResponse:
        paths: dict[str, Any] = {f"/{name}": {"post": {}} for name in endpoints}
        paths["/apply"]["post"] = {"requestBody": reference("Input"), "responses": {"200": reference("Output")}}
        return JSONResponse({"paths": paths, "components": {"schemas": schemas}})

    def route(name: str, function: Callable[..., dict[str, Any]]) -> Route:
        async def answer(request: Request) -> JSONResponse:
            fields = _plain(await request.json())
            if set(fields["inputs"]) != {"x", "scale", "more", "steps"}:
                return JSONResponse({"detail": [{"type": "missing", "msg": "Field required"}]}, 422)
            if [] in fields.values():
                return JSONResponse({"detail": [{"type": "too_short", "msg": "Set should have at least 1 item"}]}, 422)
            return JSONResponse(_as_json(function(**fields)))

        return Route(f"/{name}", answer, methods=["POST"])

    routes = [route(name, function) for name, function in endpoints.items()]
    return Starlette(routes=[*routes, Route("/openapi.json", schema)])
