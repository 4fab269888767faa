/**
 * The shipped files for systemd, Compose and Kubernetes, started as processes of this machine. Of what the files say,
 * only this is replaced: ports, so that tests can run side by side; paths, which lead to a temporary directory; the
 * published module, by the checkout, and its cache; the addresses of networks that are not there, by 127.0.0.1.
 */
import { delay } from "@std/async/delay";
import { findFreePort } from "../tools/free_port.ts";
import { registryFlags } from "../tools/std.ts";
import { RunningCommand } from "./_command.ts";
import {
  execForm,
  imageEnvironment,
  type KubernetesObject,
  kubernetesObjects,
  ofKind,
  type PodSpec,
  type Probe,
  readCompose,
  unitSettings,
} from "./_packaging.ts";
import { replaceAll, type Replacement } from "./_proxy.ts";
import { TempDirectory } from "./_temp.ts";

const PAGE =
  "<!doctype html><html><head><title>App</title></head><body></body></html>";
const SECRETS = "REP_SENSITIVE_ANALYTICS_KEY=UA-12345-1\n";
const MASTER_KEY = btoa("m".repeat(32));

/** What a process is started with. */
interface Start {
  /** The program and its arguments, as they are in the files. */
  words: string[];
  env: Record<string, string>;
  replacements: Replacement[];
}

/** Starts what files say with Deno and the module of this checkout. */
async function startHere(
  { words, env: { DENO_DIR: _cache, ...env }, replacements }: Start,
): Promise<RunningCommand> {
  const text = replaceAll(JSON.stringify({ words, env }), replacements);
  const here: Pick<Start, "words" | "env"> = JSON.parse(text);
  const isModule = (word: string) => word.startsWith("jsr:@rep/gateway@");
  const [, run = "", ...rest] = here.words;
  const flags = rest.slice(0, rest.findIndex(isModule));
  const options = rest.slice(flags.length + 1);
  const args = [run, ...await registryFlags(), ...flags, "main.ts", ...options];
  return await RunningCommand.start(
    { args, env: here.env },
    (line) => /"serves":"gateway","url":"([^"]+)"/.exec(line)?.[1],
  );
}

/** How one of the files deploys a gateway. */
interface DeploymentOptions {
  readonly ports: ReadonlyMap<number, number>;
  readonly start: () => Promise<RunningCommand>;
  readonly setTheme: (value: string, process: RunningCommand) => Promise<void>;
}

/** A gateway as one of the files deploys it. */
export class Deployment implements AsyncDisposable {
  readonly #options: DeploymentOptions;
  #process: RunningCommand;

  private constructor(options: DeploymentOptions, process: RunningCommand) {
    this.#options = options;
    this.#process = process;
  }

  static async start(options: DeploymentOptions): Promise<Deployment> {
    return new Deployment(options, await options.start());
  }

  /** The ports in this test, by those that the files promise to a proxy on the same machine. */
  get ports(): ReadonlyMap<number, number> {
    return this.#options.ports;
  }

  /** The process that was started last. */
  get process(): RunningCommand {
    return this.#process;
  }

  /** Changes the PUBLIC variable THEME as the files mean it to be done. */
  async setTheme(value: string): Promise<void> {
    await this.#options.setTheme(value, this.#process);
  }

  /** Starts the gateway again after it has ended. */
  async restart(): Promise<void> {
    this.#process = await this.#options.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}

/** The directories that `docs/deploy.md` has an administrator make for the unit. */
export async function makeUnitDirectory(): Promise<TempDirectory> {
  const directory = await TempDirectory.make();
  for (const name of ["app", "credentials", "etc", "state"]) {
    await Deno.mkdir(directory.at(name));
  }
  await directory.write("app/index.html", PAGE);
  await directory.write("etc/app.env", "REP_PUBLIC_THEME=dark\n");
  await directory.write("etc/secrets.env", SECRETS);
  await directory.write("etc/master_key", MASTER_KEY);
  return directory;
}

/** Starts `examples/systemd`, with these options in addition. */
export async function deployUnit(
  directory: TempDirectory,
  ...options: string[]
): Promise<Deployment> {
  const [port, healthPort] = [findFreePort(), findFreePort()];
  const etc: Replacement = ["/etc/rep-gateway", directory.at("etc")];
  const replacements: Replacement[] = [
    etc,
    ["%d/", `${directory.at("credentials")}/`],
    ["/srv/app", directory.at("app")],
    ["/var/lib/rep-gateway", directory.at("state")],
    [`"--port","8080"`, `"--port","${port}"`],
    [`"--health-port","8081"`, `"--health-port","${healthPort}"`],
  ];
  const words = [...unitSettings("ExecStart")[0]!.split(/\s+/), ...options];
  const env: Record<string, string> = {};
  for (const line of unitSettings("Environment")) {
    const [name = "", ...value] = line.split("=");
    env[name] = value.join("=");
  }
  const [reload = ""] = unitSettings("ExecReload");
  const [, reloadSignal] = /^\/bin\/kill -(\w+) \$MAINPID$/.exec(reload) ?? [];
  return await Deployment.start({
    ports: new Map([[8080, port], [8081, healthPort]]),
    async start() {
      for (const credential of unitSettings("LoadCredential")) {
        const [name, path = ""] = credential.split(":");
        const copy = directory.at(`credentials/${name}`);
        await Deno.copyFile(replaceAll(path, [etc]), copy);
      }
      return await startHere({ words, env, replacements });
    },
    async setTheme(value, process) {
      await directory.write("etc/app.env", `REP_PUBLIC_THEME=${value}\n`);
      process.signal(`SIG${reloadSignal}` as Deno.Signal);
    },
  });
}

const IMAGE = "examples/docker/Dockerfile";

/** What the image adds to the command of a container, with a port on which the test lets it listen. */
async function imageStart(port: number): Promise<Pick<Start, "words" | "env">> {
  const listen = {
    REP_GATEWAY_HOSTNAME: "127.0.0.1",
    REP_GATEWAY_PORT: `${port}`,
  };
  return {
    words: await execForm(IMAGE, "ENTRYPOINT"),
    env: { ...await imageEnvironment(IMAGE), ...listen },
  };
}

/** The project of `docs/deploy.md`, next to which `examples/docker` was copied. */
export async function makeComposeProject(): Promise<TempDirectory> {
  const directory = await TempDirectory.make();
  for (const name of ["config", "data", "dist", "secrets"]) {
    await Deno.mkdir(directory.at(name));
  }
  await setComposeTheme(directory, "dark");
  await directory.write("dist/index.html", PAGE);
  await directory.write("secrets/secrets.env", SECRETS);
  await directory.write("secrets/master_key", MASTER_KEY);
  return directory;
}

/** Edits the shipped file. */
async function setComposeTheme(
  directory: TempDirectory,
  value: string,
): Promise<void> {
  const shipped = await Deno.readTextFile("examples/docker/config/app.env");
  await directory.write(
    "config/app.env",
    `${shipped}REP_PUBLIC_THEME=${value}\n`,
  );
}

/** Starts the container of `examples/docker` as a process. */
export async function deployCompose(
  directory: TempDirectory,
): Promise<Deployment> {
  const { services: { gateway }, secrets } = await readCompose();
  const inside = new Map([[8080, findFreePort()], [8081, findFreePort()]]);
  const ports = new Map<number, number>();
  for (const published of gateway.ports) {
    const [, outside, port] = published.split(":").map(Number);
    ports.set(outside!, inside.get(port!)!);
  }
  const replacements: Replacement[] = [];
  for (const volume of gateway.volumes) {
    const [source = "", target = ""] = volume.split(":");
    replacements.push([target, directory.at(source)]);
  }
  for (const [name, { file }] of Object.entries(secrets)) {
    replacements.push([`/run/secrets/${name}`, directory.at(file)]);
  }
  replacements.push(
    ["/app/dist", directory.at("dist")],
    [`"8081"`, `"${inside.get(8081)}"`],
    ["172.16.0.0/12", "127.0.0.1"],
  );
  const image = await imageStart(inside.get(8080)!);
  const words = [...image.words, ...gateway.command];
  const env = { ...image.env, ...gateway.environment };
  return await Deployment.start({
    ports,
    start: () => startHere({ words, env, replacements }),
    setTheme: (value) => setComposeTheme(directory, value),
  });
}

/** Runs the health check of `examples/docker` as Docker does, and returns whether the container is healthy. */
export async function isHealthy({ ports }: Deployment): Promise<boolean> {
  const { services } = await readCompose();
  const [, , ...words] = services.gateway.healthcheck.test;
  const here = `127.0.0.1:${ports.get(8081)}`;
  const args = words.map((word) => word.replace("127.0.0.1:8081", here));
  const check = new Deno.Command(Deno.execPath(), { args, stderr: "null" });
  return (await check.output()).success;
}

/** The directories that Kubernetes mounts into the pods. */
export class Volumes implements AsyncDisposable {
  readonly pod: PodSpec;
  readonly replicas: number;
  readonly #objects: readonly KubernetesObject[];
  readonly #directories = new AsyncDisposableStack();
  readonly #byName = new Map<string, TempDirectory>();
  #version = 1;

  private constructor(objects: readonly KubernetesObject[]) {
    this.#objects = objects;
    const [deployment] = ofKind(objects, "Deployment");
    this.pod = deployment!.spec.template.spec;
    this.replicas = deployment!.spec.replicas;
  }

  static async mount(): Promise<Volumes> {
    const volumes = new Volumes(await kubernetesObjects());
    for (const { name, projected } of volumes.pod.volumes) {
      const [source = {}] = projected.sources;
      const [object] = Object.values(source);
      const directory = await volumes.#add(name);
      await directory.mount("1", volumes.#files(object!.name));
    }
    await volumes.#add("data");
    const dist = await volumes.#add("dist");
    await dist.write("index.html", PAGE);
    return volumes;
  }

  async #add(name: string): Promise<TempDirectory> {
    const directory = this.#directories.use(await TempDirectory.make());
    this.#byName.set(name, directory);
    return directory;
  }

  /** Updates the ConfigMap. */
  async setTheme(value: string): Promise<void> {
    await this.#byName.get("config")!.mount(`${++this.#version}`, {
      ...this.#files("app-config"),
      REP_PUBLIC_THEME: value,
    });
  }

  /** What is replaced in the files of a pod whose health port is this one. */
  replacements(healthPort: number): Replacement[] {
    const replacements: Replacement[] = [];
    const [{ volumeMounts }] = this.pod.containers;
    for (const { name, mountPath } of volumeMounts) {
      replacements.push([mountPath, this.#byName.get(name)!.path]);
    }
    const data = this.#byName.get("data")!;
    replacements.push(
      ["/app/dist", this.#byName.get("dist")!.path],
      ["/data", data.path],
      ["http://denokv:4512", data.at("kv.sqlite3")],
      ["8081", `${healthPort}`],
      ["10.0.0.0/8", "127.0.0.1"],
    );
    return replacements;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directories.disposeAsync();
  }

  #files(object: string): Record<string, string> {
    const isObject = ({ metadata }: KubernetesObject) =>
      metadata.name === object;
    const { data, stringData } = this.#objects.find(isObject)!;
    const files = { ...data, ...stringData };
    const placeholder = "REPLACE-WITH-THE-OUTPUT-OF-openssl-rand-base64-32";
    for (const [name, text] of Object.entries(files)) {
      if (text === placeholder) files[name] = MASTER_KEY;
    }
    return files;
  }
}

/** A pod of `examples/kubernetes`, which the test probes as a kubelet does. */
export class Pod implements AsyncDisposable {
  readonly process: RunningCommand;
  /** The ports in this test, by their names in the file. */
  readonly ports: ReadonlyMap<string, number>;
  readonly #spec: PodSpec["containers"][0];
  readonly #stopped = new AbortController();
  readonly #probing: Promise<void>[];
  readonly #ready = Promise.withResolvers<void>();
  readonly #unready = Promise.withResolvers<void>();
  /** Whether it is among the endpoints of its Service. */
  isReady = false;
  /** How often the liveness probe would have had it killed. */
  kills = 0;

  private constructor(
    process: RunningCommand,
    ports: ReadonlyMap<string, number>,
    volumes: Volumes,
    onChange: () => void,
  ) {
    this.process = process;
    this.ports = ports;
    this.#spec = volumes.pod.containers[0];
    const { readinessProbe, livenessProbe } = this.#spec;
    this.#probing = [
      this.#repeat(readinessProbe, (isReady) => {
        if (isReady === this.isReady) return;
        this.isReady = isReady;
        (isReady ? this.#ready : this.#unready).resolve();
        onChange();
      }),
      this.#repeat(livenessProbe, (isLive) => {
        if (!isLive) this.kills++;
      }),
    ];
  }

  /** Starts a pod; `onChange` is called when it becomes ready, and when it is no longer. */
  static async start(volumes: Volumes, onChange: () => void): Promise<Pod> {
    const [container] = volumes.pod.containers;
    const ports = new Map<string, number>();
    for (const { name } of container.ports) ports.set(name, findFreePort());
    const { words, env } = await imageStart(ports.get("http")!);
    for (const { name, value } of container.env) env[name] = value;
    const process = await startHere({
      words: [...words, ...container.args],
      env,
      replacements: volumes.replacements(ports.get("health")!),
    });
    const pod = new Pod(process, ports, volumes, onChange);
    if (!await pod.probe(pod.#spec.startupProbe)) {
      throw new Error("Cannot start a pod: expected its probe to succeed");
    }
    return pod;
  }

  /** When it first becomes ready. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** When it is no longer ready. */
  get unready(): Promise<void> {
    return this.#unready.promise;
  }

  /** Whether it still accepts connections. */
  async isListening(): Promise<boolean> {
    const port = this.ports.get("http")!;
    try {
      using _connection = await Deno.connect({ hostname: "127.0.0.1", port });
      return true;
    } catch {
      return false;
    }
  }

  /** Asks a probe once. */
  async probe({ httpGet }: Probe): Promise<boolean> {
    const { signal } = this.#stopped;
    const port = this.ports.get(httpGet.port);
    const url = `http://127.0.0.1:${port}${httpGet.path}`;
    try {
      const response = await fetch(url, { signal });
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false; // refused, or the test ends
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    await Promise.all(this.#probing);
    await this.process[Symbol.asyncDispose]();
  }

  /** Asks a probe again and again; reports each success, and the failure that reaches the threshold. */
  async #repeat(probe: Probe, report: (isOk: boolean) => void): Promise<void> {
    for (let failures = 0; !this.#stopped.signal.aborted;) {
      const isOk = await this.probe(probe);
      failures = isOk ? 0 : failures + 1;
      if (isOk || failures === probe.failureThreshold) report(isOk);
      const { signal } = this.#stopped;
      await delay(probe.periodSeconds * 1_000, { signal }).catch(() => {});
    }
  }
}
