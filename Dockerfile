# Built in one stage, run in another that has neither compilers nor pip.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/vgpu-scheduler
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY operator ./operator
RUN /opt/vgpu-scheduler/bin/pip install --no-cache-dir --constraint constraints.txt ".[tracing]" \
 && /opt/vgpu-scheduler/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim
COPY --from=build /opt/vgpu-scheduler /opt/vgpu-scheduler
ENV PATH=/opt/vgpu-scheduler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=generic
# The kernels are compiled here, for any processor of the architecture: a new pod copies them, which takes no time.
RUN NUMBA_CACHE_DIR="$(python -c 'import vgpu_scheduler; print(vgpu_scheduler.__path__[0])')/kernels/compiled" \
    python -m vgpu_scheduler.runtime.warmup
ENV NUMBA_CACHE_DIR=/var/cache/numba
RUN mkdir -p /var/cache/numba && chown 65532:65532 /var/cache/numba
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["vgpu-scheduler"]
CMD ["run"]
