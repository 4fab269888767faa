import type { StartOptions } from "../../src/cli/options/option_table.ts";
import { readStart } from "../../src/cli/options/read_start.ts";
import { assertEquals, assertMatch } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { parseDuration } from "../../src/values/units.ts";
import { RunningCommand } from "../_command.ts";
import { readIngress } from "../_ingress.ts";
import {
  execForm,
  imageEnvironment,
  instructions,
  type KubernetesObject,
  kubernetesObjects,
  ofKind,
  type PodSpec,
  readCompose,
  readObjects,
  unitSettings,
} from "../_packaging.ts";
import { TempDirectory } from "../_temp.ts";
import { findFreePort } from "../../tools/free_port.ts";
import { LAZY_PACKAGES } from "../../tools/release.ts";

/** The version of Deno that the project is tested with. */
const DENO_VERSION = /deno@([\d.]+)/.exec(await Deno.readTextFile(".ci/run"))
  ?.[1];

const DOCKERFILES = ["Dockerfile", "examples/docker/Dockerfile"];

/** Returns the options that these arguments and variables set. @throws {UsageError} If one is invalid. */
async function optionsOf(
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<StartOptions> {
  const command = await readStart(args, environment, false);
  if (command === "help" || command === "version") {
    throw new TypeError(`Cannot use ${args}: expected a start of the gateway`);
  }
  return command.options;
}

for (const path of DOCKERFILES) {
  Deno.test(`${path} pins Deno, and runs as an unprivileged user whom Kubernetes recognizes by number`, async () => {
    assertEquals(await instructions(path, "FROM"), [
      `denoland/deno:${DENO_VERSION}`,
    ]);
    assertEquals(await instructions(path, "USER"), ["65534:65534"]);
  });

  Deno.test(`${path} starts from the cache only, never prompts, and may write to the volume only`, async () => {
    const entrypoint = await execForm(path, "ENTRYPOINT");
    const flags = entrypoint.slice(2, -1);
    assertEquals(entrypoint.slice(0, 2), ["deno", "run"]);
    assertEquals(flags, [
      "--cached-only",
      "--no-prompt",
      "--unstable-kv",
      "--allow-net",
      "--allow-env",
      "--allow-read",
      "--allow-write=/data",
      "--allow-sys=hostname",
    ]);
  });

  Deno.test(`${path} checks the health port that it sets`, async () => {
    const { "health-port": port } = await optionsOf(
      [],
      await imageEnvironment(path),
    );
    const [check = ""] = await instructions(path, "HEALTHCHECK");
    assertEquals(check.includes(`http://127.0.0.1:${port}/readyz`), true);
  });

  Deno.test(`${path} caches every package that the code imports on demand`, async () => {
    const cached = (await instructions(path, "RUN")).join(" ");
    for (const name of LAZY_PACKAGES) {
      assertEquals(cached.includes(` ${name} `), true, name);
    }
  });
}

Deno.test({
  name:
    "the steps of the Dockerfile, run by hand, give a gateway that starts from the cache and answers its own check",
  ignore: Deno.build.os === "windows", // the image is Linux
  async fn() {
    await using app = await TempDirectory.make();
    await copySources(app.path);
    const { DENO_DIR: _sharedCache, ...image } = await imageEnvironment(
      "Dockerfile",
    ); // nothing is downloaded twice
    const env = { ...image, REP_GATEWAY_HEALTH_PORT: String(findFreePort()) };
    for (const step of await instructions("Dockerfile", "RUN")) {
      await runShell(step.replace("-o 65534 -g 65534 /data", "data"), {
        cwd: app.path,
        env,
      });
    }
    const [, ...args] = await execForm("Dockerfile", "ENTRYPOINT");
    const options = [
      ...args,
      "--hostname",
      "127.0.0.1",
      "--port",
      "0",
      "--kv",
      ":memory:",
    ];
    await using command = await RunningCommand.start({
      args: options,
      env,
      cwd: app.path,
    }, gatewayUrl);
    const healthUrl = `http://127.0.0.1:${env.REP_GATEWAY_HEALTH_PORT}`;
    assertEquals(
      await (await fetch(`${healthUrl}/readyz`)).text(),
      "healthy\n",
    );
    const [check = ""] = await instructions("Dockerfile", "HEALTHCHECK");
    const [, , ...evalArgs]: string[] = JSON.parse(
      check.slice(check.indexOf("[")),
    ).map((text: string) => text.replace("http://127.0.0.1:8081", healthUrl));
    assertEquals(
      (await runDeno(["eval", ...evalArgs], { cwd: app.path, env })).code,
      0,
    );
    command.signal("SIGTERM");
    assertEquals(await command.ended(), 0);
    assertEquals(
      (await runDeno(["eval", ...evalArgs], { cwd: app.path, env })).code,
      1,
    );
  },
});

/** Copies what the Dockerfile copies. A directory is copied as in Docker: its contents. */
async function copySources(to: string): Promise<void> {
  for (const line of await instructions("Dockerfile", "COPY")) {
    const paths = line.split(" ");
    const target = paths.pop() ?? "";
    const destination = `${to}/${target}`;
    const isDirectory = (await Deno.stat(paths[0] ?? "")).isDirectory;
    const { success } = await new Deno.Command("sh", {
      args: [
        "-c",
        'mkdir -p "$0" && cp -r "$@" "$0"',
        destination,
        ...paths.map((path) => isDirectory ? `${path}/.` : path),
      ],
    }).output();
    assertEquals(success, true, line);
  }
}

interface ProcessOptions {
  cwd: string;
  env: Record<string, string>;
}

async function runShell(
  script: string,
  { cwd, env }: ProcessOptions,
): Promise<void> {
  const path = `${Deno.execPath().replace(/\/[^/]*$/, "")}:${
    Deno.env.get("PATH")
  }`;
  const options = { args: ["-ec", script], cwd, env: { ...env, PATH: path } };
  const { success, stderr } = await new Deno.Command("sh", options).output();
  assertEquals(success, true, `${script}\n${new TextDecoder().decode(stderr)}`);
}

async function runDeno(
  args: string[],
  { cwd, env }: ProcessOptions,
): Promise<Deno.CommandOutput> {
  return await new Deno.Command(Deno.execPath(), { args, cwd, env }).output();
}

function gatewayUrl(line: string): string | undefined {
  return /"serves":"gateway","url":"([^"]+)"/.exec(line)?.[1];
}

Deno.test("examples/docker/compose.yaml: options exist, mounts are read, and the drain ends in time", async () => {
  const { services: { gateway }, secrets } = await readCompose();
  const image = await imageEnvironment("examples/docker/Dockerfile");
  const { REP_GATEWAY_MASTER_KEY_FILE: masterKey, ...environment } = {
    ...image,
    ...gateway.environment,
  };
  const options = await optionsOf(gateway.command, environment);
  assertEquals(Object.keys(secrets).map((name) => `/run/secrets/${name}`), [
    masterKey,
    options["env-file"][1],
  ]);
  assertEquals(gateway.secrets, Object.keys(secrets));
  const targets = gateway.volumes.map((volume) => volume.split(":")[1]);
  assertEquals(
    targets.map((target) =>
      [options["env-file"][0], options.kv].some((path) =>
        path?.startsWith(target!)
      )
    ),
    [
      true,
      true,
    ],
  );
  assertEquals(
    (parseDuration(gateway.stop_grace_period) ?? 0) >
      options["stop-delay"] + options.drain,
    true,
  );
  assertEquals([gateway.read_only, gateway.cap_drop, gateway.security_opt], [
    true,
    ["ALL"],
    ["no-new-privileges:true"],
  ]);
  const [check = ""] = await instructions(
    "examples/docker/Dockerfile",
    "HEALTHCHECK",
  );
  assertEquals(gateway.healthcheck.test, [
    "CMD",
    ...JSON.parse(check.slice(check.indexOf("["))),
  ]);
});

Deno.test("examples/systemd: options exist, credentials are read, and the drain ends in time", async () => {
  const [command = ""] = unitSettings("ExecStart");
  const [program, args = ""] = command.split(
    ` jsr:@rep/gateway@${config.version} `,
  );
  const options = await optionsOf(args.split(" "));
  assertMatch(
    program ?? "",
    /^\/usr\/local\/bin\/deno run --cached-only --no-prompt --unstable-kv /,
  );
  assertEquals(
    options.kv?.startsWith(`/var/lib/${unitSettings("StateDirectory")}/`),
    true,
  );
  const credentials = unitSettings("LoadCredential").map((line) =>
    `%d/${line.split(":")[0]}`
  );
  const [masterKey] = unitSettings("Environment").flatMap((line) =>
    line.split("REP_GATEWAY_MASTER_KEY_FILE=")[1] ?? []
  );
  assertEquals(credentials, [masterKey, options["env-file"][1]]);
  const timeout = parseDuration(unitSettings("TimeoutStopSec")[0] ?? "") ?? 0;
  assertEquals(timeout > options["stop-delay"] + options.drain, true);
  assertEquals(unitSettings("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
});

async function gatewayPod(): Promise<
  { pod: PodSpec; options: StartOptions }
> {
  const [deployment] = ofKind(await kubernetesObjects(), "Deployment");
  const pod = deployment!.spec.template.spec;
  return {
    pod,
    options: await optionsOf(
      pod.containers[0].args,
      await imageEnvironment("examples/docker/Dockerfile"),
    ),
  };
}

/** The types and validators of objects that are not Kubernetes' own. */
const MODELS: Record<string, string> = {
  "gateway.networking.k8s.io/v1":
    "npm:@kubernetes-models/gateway-api@2.0.0/gateway.networking.k8s.io/v1",
  "monitoring.coreos.com/v1":
    "npm:@kubernetes-models/prometheus-operator@6.0.0/monitoring.coreos.com/v1",
};
const BUILT_IN_MODELS = "npm:kubernetes-models@5.1.0";

/** Returns a program that does not compile if the object has an unknown field, and fails if a value is invalid. */
function validator(object: KubernetesObject): string {
  const { apiVersion, kind, ...content } = object;
  const path = MODELS[apiVersion] ?? `${BUILT_IN_MODELS}/${apiVersion}`;
  return `{
  const { ${kind} } = await import("${path}/${kind}");
  new ${kind}(${JSON.stringify(content, null, 2)}).validate();
}`;
}

Deno.test("examples/kubernetes: all objects have the fields and values of Kubernetes, and of the Gateway API", async () => {
  const names = [...Deno.readDirSync("examples/kubernetes")].map(({ name }) =>
    name.replace(/\.yaml$/, "")
  );
  const objects = (await Promise.all(names.map(readObjects))).flat();
  assertEquals(objects.length > 10, true);
  await using directory = await TempDirectory.make({
    "validate.ts": objects.map(validator).join("\n"),
  });
  const args = [
    "run",
    "--no-config",
    "--check",
    "-A",
    "--quiet",
    directory.at("validate.ts"),
  ];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args })
    .output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
});

Deno.test("examples/kubernetes: probes request what the health port serves, and the drain ends in time", async () => {
  const { pod, options } = await gatewayPod();
  const [{ startupProbe, readinessProbe, livenessProbe, ports }] =
    pod.containers;
  assertEquals(ports, [
    { name: "http", containerPort: options.port },
    { name: "health", containerPort: options["health-port"]! },
  ]);
  const probes = [startupProbe, readinessProbe, livenessProbe].map((
    { httpGet },
  ) => httpGet);
  assertEquals(
    probes,
    ["/readyz", "/readyz", "/livez"].map((path) => ({
      path,
      port: "health",
    })),
  );
  const stopMs = options["stop-delay"] + options.drain;
  assertEquals(pod.terminationGracePeriodSeconds * 1_000 > stopMs, true);
  assertEquals(
    livenessProbe.periodSeconds * livenessProbe.failureThreshold * 1_000 >
      stopMs,
    true,
  );
  const noticedMs = readinessProbe.periodSeconds *
    readinessProbe.failureThreshold * 1_000;
  assertEquals(
    noticedMs < options["stop-delay"],
    true,
    "the endpoint is removed while the gateway still serves",
  );
});

Deno.test("examples/kubernetes: every mount is read, and every volume has its object", async () => {
  const objects = await kubernetesObjects();
  const { pod, options } = await gatewayPod();
  const [{ volumeMounts, env }] = pod.containers;
  const keyFiles = env.map(({ value }) => value);
  assertEquals(volumeMounts.map(({ mountPath }) => mountPath), [
    ...options["env-file"],
    "/etc/rep/keys",
  ]);
  const sources = Object.fromEntries(
    pod.volumes.map(({ name, projected: { sources: [source] } }) => {
      const [kind, { name: object }] = Object.entries(source!)[0]!;
      return [
        name,
        objects.find((it) =>
          it.kind.toLowerCase() === kind.toLowerCase() &&
          it.metadata.name === object
        ),
      ];
    }),
  );
  assertEquals(Object.keys(sources), volumeMounts.map(({ name }) => name));
  assertEquals(
    Object.keys(sources.keys?.stringData ?? {}).map((name) =>
      `/etc/rep/keys/${name}`
    ),
    keyFiles,
  );
  assertEquals(
    Object.keys(sources.config?.data ?? {}).every((name) =>
      name.startsWith("REP_PUBLIC_")
    ),
    true,
  );
  const secrets = Object.keys(sources.secrets?.stringData ?? {});
  assertEquals(
    secrets.every((name) => /^REP_(SENSITIVE|SERVER)_/.test(name)),
    true,
  );
});

Deno.test("examples/kubernetes: all pods are restricted as the Pod Security Standard says", async () => {
  const objects = await kubernetesObjects();
  const pods = [
    ...ofKind(objects, "Deployment"),
    ...ofKind(objects, "StatefulSet"),
  ].map(({ spec }) => spec.template.spec);
  assertEquals(pods.length, 2);
  for (const { securityContext, containers: [container] } of pods) {
    assertEquals(
      [securityContext.runAsNonRoot, securityContext.seccompProfile],
      [true, { type: "RuntimeDefault" }],
    );
    assertEquals(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  }
});

Deno.test("examples/kubernetes: the PodDisruptionBudget, the Service and the PodMonitor select the pods", async () => {
  const objects = await kubernetesObjects();
  const [monitor] = await readObjects("pod_monitor");
  const [deployment] = ofKind(objects, "Deployment");
  const labels = deployment!.spec.template.metadata.labels;
  const [service] = ofKind(objects, "Service").filter(({ metadata }) =>
    metadata.name === deployment!.metadata.name
  );
  const [budget] = ofKind(objects, "PodDisruptionBudget");
  assertEquals(service!.spec.selector, labels);
  assertEquals([budget, monitor].map((object) => object!.spec.selector), [{
    matchLabels: labels,
  }, {
    matchLabels: labels,
  }]);
  assertEquals(
    deployment!.spec.template.metadata.annotations?.["prometheus.io/port"],
    "8081",
  );
});

/** The parts of an HTTPRoute that are compared. */
interface HttpRoute {
  spec: {
    hostnames: string[];
    rules: {
      matches: { path: unknown }[];
      timeouts?: unknown;
      backendRefs: unknown;
    }[];
  };
}

Deno.test("examples/kubernetes: the Ingress and the HTTPRoute lead to the Service, for the host that is allowed", async () => {
  const { options } = await gatewayPod();
  const [service] = ofKind(await readObjects("gateway"), "Service");
  const { metadata: { name }, spec: { ports: [port] } } = service!;
  const [{ host, http: { paths: [{ backend }] } }] =
    (await readIngress()).spec.rules;
  assertEquals(backend.service, { name, port: { name: port!.name } });
  const [route] = await readObjects("http_route") as unknown as HttpRoute[];
  const { hostnames, rules } = route!.spec;
  assertEquals([[host], hostnames], [
    options["allowed-hosts"],
    options["allowed-hosts"],
  ]);
  const backendRefs = [{ name, port: port!.port }];
  assertEquals(rules, [
    {
      matches: [{ path: { type: "Exact", value: "/rep/changes" } }],
      timeouts: { request: "0s" },
      backendRefs,
    },
    { matches: [{ path: { type: "PathPrefix", value: "/" } }], backendRefs },
  ]);
});
