# Built in one stage, run in another that has neither compilers nor pip of its own.
# BASE is an image with Python 3.11.2 or newer, as `python`, and its venv: both stages start from it.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv /opt/vgpu-scheduler
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY operator ./operator
# An index of your own: --secret id=pip,src=pip.conf
ENV PIP_CACHE_DIR=/var/cache/pip
RUN --mount=type=cache,target=/var/cache/pip --mount=type=secret,id=pip,target=/etc/pip.conf \
    /opt/vgpu-scheduler/bin/pip install --constraint constraints.txt ".[tracing,history]" \
 && /opt/vgpu-scheduler/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/vgpu-scheduler /opt/vgpu-scheduler
ENV PATH=/opt/vgpu-scheduler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=generic
# The kernels are compiled here, for any processor of the architecture: a new pod copies them, which takes no time.
RUN NUMBA_CACHE_DIR="$(python -c 'import vgpu_scheduler; print(vgpu_scheduler.__path__[0])')/kernels/compiled" \
    python -m vgpu_scheduler.runtime.warmup
# The user has no entry in /etc/passwd; libraries that look for its home find one on any runtime.
ENV NUMBA_CACHE_DIR=/var/cache/numba \
    HOME=/
RUN mkdir -p /var/cache/numba && chown 65532:65532 /var/cache/numba
COPY LICENSE /licenses/LICENSE
# The release's workflow says these; a build by hand says no more than it knows.
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title="vgpu-scheduler" \
      org.opencontainers.image.description="A Kubernetes scheduler for shared GPUs: it chooses the node and the cards, and binds the pod to both in one step." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["vgpu-scheduler"]
CMD ["run"]
