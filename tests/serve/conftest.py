"""Serving is an extra: where its packages or those of its clients are absent, its tests are not even read."""

from importlib.util import find_spec

_NEEDED = ("fastapi", "uvicorn", "greenlet", "prometheus_client", "openai", "libretranslatepy")
collect_ignore_glob = [] if all(map(find_spec, _NEEDED)) else ["test_*.py"]
