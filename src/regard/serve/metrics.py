"""What the server counts, for Prometheus: no keys, texts or addresses, only models and outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_TIMES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        of = {"labelnames": ("model",), "registry": self.registry}
        self.running = Gauge("regard_requests_running", "Requests being decoded", ["model"], registry=self.registry)
        self.waiting = Gauge("regard_requests_waiting", "Requests in the queue", ["model"], registry=self.registry)
        self.queue_time = self._times("regard_queue_seconds", "Time in the queue")
        self.first_token = self._times("regard_time_to_first_token_seconds", "From request to first token")
        self.between = self._times("regard_time_between_tokens_seconds", "Time of one decoding step")
        self.request_time = self._times("regard_request_seconds", "From request to its end")
        self.rows = Counter("regard_decoded_tokens", "Tokens decoded, those of all hypotheses", **of)  # type: ignore[arg-type]
        self.outcomes = Counter(
            "regard_requests", "Requests by how they ended", ["model", "outcome"], registry=self.registry
        )

    def of(self, model: str) -> ModelMetrics:
        """The figures of one model, as an engine reports them."""
        return ModelMetrics(self, model)

    def text(self) -> bytes:
        """As Prometheus reads them."""
        return generate_latest(self.registry)

    def _times(self, name: str, help: str) -> Histogram:
        return Histogram(name, help, ["model"], registry=self.registry, buckets=_TIMES)


@dataclass(frozen=True)
class ModelMetrics:
    """What the engine of one model reports."""

    metrics: Metrics
    model: str

    def began(self, waited: float) -> None:
        """A request left the queue."""
        self.metrics.queue_time.labels(self.model).observe(waited)

    def first_token(self, seconds: float) -> None:
        """A request has its first token."""
        self.metrics.first_token.labels(self.model).observe(seconds)

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Steps were made."""
        self.metrics.between.labels(self.model).observe(seconds)
        self.metrics.rows.labels(self.model).inc(n_tokens)

    def ended(self, outcome: str, seconds: float) -> None:
        """A request is over."""
        self.metrics.request_time.labels(self.model).observe(seconds)
        self.metrics.outcomes.labels(self.model, outcome).inc()
