import type { StartOptions } from "../../src/command/options/option_table.ts";
import { readStart } from "../../src/command/options/read_start.ts";
import { LOG_FLUSH_MS } from "../../src/command/start/output.ts";
import { FLUSH_MS } from "../../src/command/start/service.ts";
import { LEAVE_TIMEOUT_MS } from "../../src/core/shutdown.ts";
import { assertEquals, assertMatch } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { parseDuration } from "../../src/core/values/units.ts";
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
  type Probe,
  readCompose,
  readObjects,
  unitSettings,
} from "../_packaging.ts";
import { TempDirectory } from "../_temp.ts";
import { findFreePort } from "../../tools/free_port.ts";
import { TESTED_DENO } from "../../tools/npm/launcher.ts";
import { LAZY_PACKAGES } from "../../tools/release.ts";

/** The version of Deno that the project is tested with. */
const DENO_VERSION = /deno@([\d.]+)/.exec(await Deno.readTextFile(".ci/run"))
  ?.[1];

/** The image of Compose and Kubernetes; that of a checkout is in the root. */
const IMAGE = "examples/docker/Dockerfile";
const DENO_IMAGES = ["Dockerfile", IMAGE];
/** That of teams with Node.js alone. */
const NODE_IMAGE = "examples/docker/Dockerfile.node";

/** Returns the options that these arguments and variables set. @throws {UsageError} If one is invalid. */
async function optionsOf(
  args: readonly string[],
  environment: Record<string, string> = {},
) {
  const command = await readStart(args, environment, false);
  if (command === "help" || command === "version") {
    throw new TypeError(`Cannot use ${args}: expected a start of the gateway`);
  }
  return command.options;
}

Deno.test("the npm program installs the tested version of Deno", () => {
  assertEquals(TESTED_DENO, DENO_VERSION);
});

Deno.test("examples/docker/Dockerfile.node has npm's Deno on its PATH, in the tested version", async () => {
  const [install = ""] = await instructions(NODE_IMAGE, "RUN");
  assertEquals(install.includes(` deno@${DENO_VERSION} `), true);
  const { PATH = "" } = await imageEnvironment(NODE_IMAGE);
  assertMatch(PATH, /^\/gateway\/node_modules\/\.bin:/);
  assertEquals(await execForm(NODE_IMAGE, "ENTRYPOINT"), ["rep-gateway"]);
});

for (const path of DENO_IMAGES) {
  Deno.test(`${path} pins Deno`, async () => {
    assertEquals(await instructions(path, "FROM"), [
      `denoland/deno:${DENO_VERSION}`,
    ]);
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
}

for (const path of [...DENO_IMAGES, NODE_IMAGE]) {
  Deno.test(`${path} runs as an unprivileged user whom Kubernetes recognizes by number`, async () => {
    assertEquals(await instructions(path, "USER"), ["65534:65534"]);
  });

  Deno.test(`${path} checks the health port that it sets`, async () => {
    const { "health-port": port } = await optionsOf(
      [],
      await imageEnvironment(path),
    );
    const [check = ""] = await instructions(path, "HEALTHCHECK");
    // An outage of the store must not end a container, as Swarm and others would do without /livez.
    assertEquals(check.includes(`http://127.0.0.1:${port}/livez`), true);
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
async function copySources(to: string) {
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
) {
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
) {
  return await new Deno.Command(Deno.execPath(), { args, cwd, env }).output();
}

function gatewayUrl(line: string): string | undefined {
  return /"serves":"gateway","url":"([^"]+)"/.exec(line)?.[1];
}

/** Returns how long a gateway with these options takes to stop if nothing ends by itself. */
function stopMsOf(options: StartOptions) {
  const { "stop-delay": stopDelayMs, drain: drainMs } = options;
  const leaving = 2 * LEAVE_TIMEOUT_MS; // before the streams end, and after that
  return stopDelayMs + leaving + drainMs + FLUSH_MS + LOG_FLUSH_MS;
}

// That their options exist, and that what is mounted is read, is shown by tests/deployments_test.ts, which starts them.

Deno.test("examples/docker/compose.yaml: the drain ends in time, and the container is hardened and checked", async () => {
  const { services: { gateway } } = await readCompose();
  const image = await imageEnvironment(IMAGE);
  const environment = { ...image, ...gateway.environment };
  delete environment.REP_GATEWAY_MASTER_KEY_FILE; // there is none on this machine
  const options = await optionsOf(gateway.command, environment);
  const graceMs = parseDuration(gateway.stop_grace_period) ?? 0;
  assertEquals(graceMs > stopMsOf(options), true);
  assertEquals(gateway.logging.driver, "json-file");
  assertMatch(gateway.logging.options["max-size"] ?? "", /^\d+m$/);
  assertMatch(gateway.logging.options["max-file"] ?? "", /^\d$/);
  assertEquals(gateway.read_only, true);
  assertEquals(gateway.cap_drop, ["ALL"]);
  assertEquals(gateway.security_opt, ["no-new-privileges:true"]);
  const [check = ""] = await instructions(IMAGE, "HEALTHCHECK");
  const command = JSON.parse(check.slice(check.indexOf("[")));
  assertEquals(gateway.healthcheck.test, ["CMD", ...command]);
});

Deno.test("examples/systemd: the drain ends in time, and the unit starts from the cache, with its state and credentials", async () => {
  const [command = ""] = unitSettings("ExecStart");
  const module = ` jsr:@rep/gateway@${config.version} `;
  const [program = "", args = ""] = command.split(module);
  assertMatch(
    program,
    /^\/usr\/local\/bin\/deno run --cached-only --no-prompt --unstable-kv /,
  );
  const options = await optionsOf(args.split(" "));
  const [timeout = ""] = unitSettings("TimeoutStopSec");
  assertEquals((parseDuration(timeout) ?? 0) > stopMsOf(options), true);
  const [state] = unitSettings("StateDirectory");
  assertEquals(options.kv?.startsWith(`/var/lib/${state}/`), true);
  const [masterKey, secrets] = unitSettings("LoadCredential").map((line) =>
    `%d/${line.split(":")[0]}`
  );
  assertEquals(options["env-file"][1], secrets);
  const environment = unitSettings("Environment");
  const variable = `REP_GATEWAY_MASTER_KEY_FILE=${masterKey}`;
  assertEquals(environment.includes(variable), true);
});

Deno.test("examples/systemd: the unit is started again however often it fails", async () => {
  const [restart] = unitSettings("Restart");
  assertEquals(restart, "on-failure");
  const unit = await Deno.readTextFile("examples/systemd/rep-gateway.service");
  const [section = ""] = unit.split("[Service]");
  // In another section than this one, systemd ignores it.
  assertMatch(section, /^StartLimitIntervalSec=0$/m);
});

Deno.test("the unit and the task grant what recognizes a process after it was killed, and reference.md names it", async () => {
  const permission = "--allow-sys=hostname";
  const [unit = ""] = unitSettings("ExecStart");
  const reference = await Deno.readTextFile("docs/reference.md");
  const places = [unit, config.tasks.gateway.command, reference];
  assertEquals(places.map((text) => text.includes(permission)), [
    true,
    true,
    true,
  ]);
});

/** The types and validators of objects that are not Kubernetes' own. */
const MODELS: Record<string, string> = {
  "gateway.networking.k8s.io/v1":
    "npm:@kubernetes-models/gateway-api@2.0.0/gateway.networking.k8s.io/v1",
  "monitoring.coreos.com/v1":
    "npm:@kubernetes-models/prometheus-operator@6.0.0/monitoring.coreos.com/v1",
};
const BUILT_IN_MODELS = "npm:kubernetes-models@5.1.0";

/** Returns a program that does not compile if the object has an unknown field, and fails if a value is invalid. */
function validator(object: KubernetesObject) {
  const { apiVersion, kind, ...content } = object;
  const path = MODELS[apiVersion] ?? `${BUILT_IN_MODELS}/${apiVersion}`;
  return `{
  const { ${kind} } = await import("${path}/${kind}");
  new ${kind}(${JSON.stringify(content, null, 2)}).validate();
}`;
}

Deno.test("examples/kubernetes: all objects have the fields and values of Kubernetes, and of the Gateway API", async () => {
  const objects: KubernetesObject[] = [];
  for await (const { name } of Deno.readDir("examples/kubernetes")) {
    objects.push(...await readObjects(name.replace(/\.yaml$/, "")));
  }
  await using directory = await TempDirectory.make({
    "validate.ts": objects.map(validator).join("\n"),
  });
  const flags = ["--no-config", "--check", "-A", "--quiet"];
  const args = ["run", ...flags, directory.at("validate.ts")];
  const validation = new Deno.Command(Deno.execPath(), { args });
  const { success, stderr } = await validation.output();
  assertEquals(success, true, new TextDecoder().decode(stderr));
});

/** Returns what the Deployment runs, and the options with which it does. */
async function gatewayPod(): Promise<
  { deployment: KubernetesObject; pod: PodSpec; options: StartOptions }
> {
  const [deployment] = ofKind(await kubernetesObjects(), "Deployment");
  const pod = deployment!.spec.template.spec;
  const image = await imageEnvironment(IMAGE);
  const options = await optionsOf(pod.containers[0].args, image);
  return { deployment: deployment!, pod, options };
}

/** Returns how long a probe fails until Kubernetes acts. */
function noticedMs({ periodSeconds, failureThreshold }: Probe) {
  return periodSeconds * failureThreshold * 1_000;
}

Deno.test("examples/kubernetes: probes request what the health port serves, and the drain ends in time", async () => {
  const { pod, options } = await gatewayPod();
  const [{ startupProbe, readinessProbe, livenessProbe, ports }] =
    pod.containers;
  assertEquals(ports, [
    { name: "http", containerPort: options.port },
    { name: "health", containerPort: options["health-port"]! },
  ]);
  // What fails during an outage of the store must not restart the pod.
  const liveness = { path: "/livez", port: "health" };
  assertEquals(startupProbe.httpGet, liveness);
  assertEquals(livenessProbe.httpGet, liveness);
  assertEquals(readinessProbe.httpGet, { path: "/readyz", port: "health" });
  const stopMs = stopMsOf(options);
  assertEquals(pod.terminationGracePeriodSeconds * 1_000 > stopMs, true);
  assertEquals(noticedMs(livenessProbe) > stopMs, true);
  // The endpoint is removed while the gateway still serves.
  assertEquals(noticedMs(readinessProbe) < options["stop-delay"], true);
});

Deno.test("examples/kubernetes: all pods are restricted as the Pod Security Standard says", async () => {
  const objects = await kubernetesObjects();
  const deployments = ofKind(objects, "Deployment");
  const statefulSets = ofKind(objects, "StatefulSet");
  const pods = [...deployments, ...statefulSets];
  assertEquals(pods.length, 2);
  for (const { spec: { template } } of pods) {
    const { securityContext, containers: [container] } = template.spec;
    assertEquals(securityContext.runAsNonRoot, true);
    const profile = { type: "RuntimeDefault" };
    assertEquals(securityContext.seccompProfile, profile);
    assertEquals(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  }
});

Deno.test("examples/kubernetes: the PodDisruptionBudget, the Service and the PodMonitor select the pods", async () => {
  const { deployment } = await gatewayPod();
  const { labels, annotations } = deployment.spec.template.metadata;
  const [service] = ofKind(await readObjects("gateway"), "Service");
  assertEquals(service!.spec.selector, labels);
  const [budget] = ofKind(await kubernetesObjects(), "PodDisruptionBudget");
  assertEquals(budget!.spec.selector, { matchLabels: labels });
  const [monitor] = await readObjects("pod_monitor");
  assertEquals(monitor!.spec.selector, { matchLabels: labels });
  assertEquals(annotations?.["prometheus.io/port"], "8081");
});

/** The parts of an HTTPRoute that are compared. */
interface HttpRoute {
  spec: { hostnames: string[]; rules: unknown[] };
}

Deno.test("examples/kubernetes: the Ingress and the HTTPRoute lead to the Service, for the host that is allowed", async () => {
  const { options } = await gatewayPod();
  const [service] = ofKind(await readObjects("gateway"), "Service");
  const { metadata: { name }, spec: { ports: [port] } } = service!;
  const [{ host, http }] = (await readIngress()).spec.rules;
  assertEquals([host], options["allowed-hosts"]);
  const [{ backend }] = http.paths;
  assertEquals(backend.service, { name, port: { name: port!.name } });
  const [route] = await readObjects("http_route") as unknown as HttpRoute[];
  assertEquals(route!.spec.hostnames, options["allowed-hosts"]);
  const backendRefs = [{ name, port: port!.port }];
  assertEquals(route!.spec.rules, [
    {
      matches: [{ path: { type: "Exact", value: "/rep/changes" } }],
      timeouts: { request: "0s" },
      backendRefs,
    },
    { matches: [{ path: { type: "PathPrefix", value: "/" } }], backendRefs },
  ]);
});

Deno.test("the flags for a network without JSR name a file that every folder finds, such as an app's", async () => {
  await using folder = await TempDirectory.make();
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", await Deno.realPath("tools/std.ts")],
    cwd: folder.path,
    env: { JSR_URL: "http://127.0.0.1:1/" },
  }).output();
  const [name, url = ""] = new TextDecoder().decode(stdout).split("=");
  const { isFile } = await Deno.stat(new URL(url, `file://${folder.path}/`));
  assertEquals([name, isFile], ["--import-map", true]);
});
