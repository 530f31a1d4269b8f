"""The service of serve_and_learn.py with FastAPI: the same learner, and the same answers to what goes wrong.

    python examples/serve_with_fastapi.py 8000
    curl --json '{"inputs": [[0.1, 0.2], [0.3, 0.4]], "targets": [[0.5], [0.6]]}' localhost:8000/learn
    curl --json '{"inputs": [[0.1, 0.2]]}' localhost:8000/predict

Needs `pip install -e '.[serve]' fastapi`.
"""

import sys
from pathlib import Path
from typing import Any

# When this file is run as a script, Python does not search the parent of `examples` for modules.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from asyncgrad import learn

try:
    import uvicorn
    from fastapi import FastAPI, Request
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from examples.serve_and_learn import new_learner
except ModuleNotFoundError as missing:
    sys.exit(f"this example needs {missing.name}, which is not installed: pip install -e '.[serve]' fastapi")

learner = new_learner(Path(__file__).parent / "output" / "serve_with_fastapi")
app = FastAPI(lifespan=learn.http.lifespan(learner), exception_handlers=learn.http.exception_handlers())
# A web page whose name leads here is not answered.
app.add_middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1"])


@app.post("/predict")
async def predict(request: Request) -> Any:
    """Answer a prediction, unless the client goes."""
    body = await learn.http.read_json(request)
    return {"outputs": (await learn.http.run_for_client(request, learner.predict(body))).tolist()}


@app.post("/learn")
async def learn_example(request: Request) -> Any:
    """Learn from an example; a client that goes cancels the backward."""
    body = await learn.http.read_json(request)
    return (await learn.http.run_for_client(request, learner.learn(body)))._asdict()


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, http=learn.http.connections())
