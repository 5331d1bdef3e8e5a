# syntax=docker/dockerfile:1
# The image of every command. `make image` builds it for amd64 and arm64.
#
# The base is named by tag: pin it to what you have looked at, PYTHON_IMAGE=python:3.13-slim-trixie@sha256:…
# (`make image-digest` prints the line). All Python packages are pinned with hashes in image/*.lock.
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
ENV UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /src
COPY image/build.lock image/run.lock image/
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r image/build.lock
# Wheels only: nothing is compiled, so nothing that compiles is needed.
RUN /opt/build/bin/uv venv --quiet --python python3 /opt/berth \
    && /opt/build/bin/uv pip install --quiet --python /opt/berth --no-build --compile-bytecode --require-hashes -r image/run.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY scheduler scheduler
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/build/wheel \
    && /opt/build/bin/uv pip install --quiet --python /opt/berth --offline --no-deps --compile-bytecode /opt/build/wheel/*.whl

FROM ${PYTHON_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="berth" \
      org.opencontainers.image.description="Berth, a second scheduler for Kubernetes" \
      org.opencontainers.image.source="https://github.com/podberth/berth" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# With glibc's allocator a process keeps what it has freed. jemalloc gives it back, for no CPU (docs/evidence/soak.md).
RUN apt-get update && apt-get install --yes --quiet --no-install-recommends 'libjemalloc2=5.*' && rm -rf /var/lib/apt/lists/*
ENV LD_PRELOAD=libjemalloc.so.2
# The base's own installer goes; what runs is in /opt/berth. The base has no byte code of Python's own modules, and each
# start would compile 120 of them anew.
RUN python3 -m pip uninstall --quiet --yes --root-user-action=ignore pip && rm -rf /usr/local/lib/python3*/ensurepip \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /usr/local/lib/python3*
COPY --from=build /opt/berth /opt/berth
# One thread: the arrays are small, and NumPy's library would start one for each core of the node.
ENV PATH=/opt/berth/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 HOME=/tmp
USER 65532:65532
EXPOSE 8081 8443 10259
ENTRYPOINT ["berth"]
CMD ["--help"]
