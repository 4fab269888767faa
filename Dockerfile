# The gateway of this checkout, without an app; its version names the commit:
#   docker build --build-arg COMMIT=$(git rev-parse HEAD) --tag rep-gateway .
# An image with your own build and the published gateway is in examples/docker.
FROM denoland/deno:2.9.6

ENV DENO_DIR=/deno-dir \
    DENO_NO_UPDATE_CHECK=1 \
    REP_GATEWAY_HEALTH_PORT=8081

WORKDIR /app
COPY deno.json main.ts serve.ts ./
COPY tools/release.ts tools/std.ts tools/std_log.ts tools/std_without_jsr.json tools/
COPY src src

ARG COMMIT=""
RUN deno run -A tools/release.ts stamp "$COMMIT"

# On a network without JSR, the dependencies come from npm, as in every task of deno.json.
RUN deno run -A tools/std.ts --config > config.json && mv config.json deno.json

# Downloads and compiles everything, so that the container starts without a network and without writing.
# The npm packages are those that --kv postgres://…, OTEL_DENO=true and patterns in a manifest import.
RUN deno cache --unstable-kv main.ts serve.ts npm:pg@8.23.1 npm:@opentelemetry/api@1.10.0 \
        npm:re2js@2.10.0 \
    && deno run --cached-only --unstable-kv --allow-env main.ts --version \
    && install -d -m 0700 -o 65534 -g 65534 /data

USER 65534:65534
EXPOSE 8080 8081

# Docker and Compose use it; Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["deno", "eval", "--no-config", "if (!(await fetch('http://127.0.0.1:8081/livez')).ok) Deno.exit(1)"]

ENTRYPOINT ["deno", "run", "--cached-only", "--no-prompt", "--unstable-kv", \
    "--allow-net", "--allow-env", "--allow-read", "--allow-write=/data", "--allow-sys=hostname", \
    "main.ts"]
