# A server of models on a CPU: docker build -t regard . && docker run -p 8000:8000 -v ./runs:/models:ro regard /models/de
# What is installed is what constraints.txt says, to the version; torch comes in its build for CPUs.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY recipes recipes
RUN python -m venv /opt/regard \
 && torch=$(grep '^torch==' constraints.txt) \
 && /opt/regard/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$torch" \
 && /opt/regard/bin/pip install --no-cache-dir -c constraints.txt ".[serve,images,audio,convert]"

FROM python:3.12-slim
# The native kernels are compiled at the first start, for the processor that is there; that takes a compiler.
RUN apt-get update && apt-get install -y --no-install-recommends g++ ffmpeg && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --create-home --home-dir /var/lib/regard regard
COPY --from=build /opt/regard /opt/regard
ENV PATH=/opt/regard/bin:$PATH XDG_CACHE_HOME=/var/lib/regard/cache PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/regard
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/live', timeout=4)"]
ENTRYPOINT ["regard", "serve", "--host", "0.0.0.0", "--port", "8000", "--device", "cpu"]
