/**
 * The shipped files for systemd, Compose and Kubernetes, started as processes of this machine. Of what the files say,
 * only this is replaced: ports, so that tests can run side by side; paths, which lead to a temporary directory; the
 * published module, by the checkout, and its cache; the addresses of networks that are not there, by 127.0.0.1.
 */
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
  const here = JSON.parse(
    replaceAll(JSON.stringify({ words, env }), replacements),
  ) as Pick<Start, "words" | "env">;
  const module = here.words.findIndex((word) =>
    word.startsWith("jsr:@rep/gateway@")
  );
  const [run, flags, options] = [
    here.words[1]!,
    here.words.slice(2, module),
    here.words.slice(module + 1),
  ];
  const args = [run, ...await registryFlags(), ...flags, "main.ts", ...options];
  return await RunningCommand.start(
    { args, env: here.env },
    (line) => /"serves":"gateway","url":"([^"]+)"/.exec(line)?.[1],
  );
}

/** A gateway as one of the files deploys it. */
export interface Deployment extends AsyncDisposable {
  /** The ports in this test, by those that the files promise to a proxy on the same machine. */
  readonly ports: ReadonlyMap<number, number>;
  /** The process that was started last. */
  readonly process: RunningCommand;
  /** Changes the PUBLIC variable THEME as the files mean it to be done. */
  setTheme(value: string): Promise<void>;
  /** Starts the gateway, again after it has ended. */
  start(): Promise<void>;
}

/** What one of the files deploys. */
interface DeploymentOptions {
  ports: ReadonlyMap<number, number>;
  start: () => Promise<RunningCommand>;
  setTheme: (value: string, process: RunningCommand) => Promise<void>;
}

async function deploy(
  { ports, start, setTheme }: DeploymentOptions,
): Promise<Deployment> {
  let process = await start();
  return {
    ports,
    get process() {
      return process;
    },
    setTheme: (value) => setTheme(value, process),
    async start() {
      process = await start();
    },
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
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
  const env = Object.fromEntries(
    unitSettings("Environment").map((
      line,
    ) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
  const [, reloadSignal] = /^\/bin\/kill -(\w+) \$MAINPID$/.exec(
    unitSettings("ExecReload")[0] ?? "",
  ) ?? [];
  return await deploy({
    ports: new Map([[8080, port], [8081, healthPort]]),
    async start() {
      for (const credential of unitSettings("LoadCredential")) {
        const [name, path] = credential.split(":") as [string, string];
        await Deno.copyFile(
          replaceAll(path, [etc]),
          directory.at(`credentials/${name}`),
        );
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
  const image = await imageStart(inside.get(8080)!);
  const mounts = gateway.volumes.map((volume): Replacement => {
    const [source = "", target = ""] = volume.split(":");
    return [target, directory.at(source)];
  });
  const replacements: Replacement[] = [
    ...mounts,
    ...Object.entries(secrets).map((
      [name, { file }],
    ): Replacement => [`/run/secrets/${name}`, directory.at(file)]),
    ["/app/dist", directory.at("dist")],
    [`"8081"`, `"${inside.get(8081)}"`],
    ["172.16.0.0/12", "127.0.0.1"],
  ];
  return await deploy({
    ports: new Map(gateway.ports.map((published) => {
      const [, outside, port] = published.split(":").map(Number);
      return [outside!, inside.get(port!)!];
    })),
    start: () =>
      startHere({
        words: [...image.words, ...gateway.command],
        env: { ...image.env, ...gateway.environment },
        replacements,
      }),
    setTheme: (value) => setComposeTheme(directory, value),
  });
}

/** Runs the health check of `examples/docker` as Docker does, and returns whether the container is healthy. */
export async function isHealthy({ ports }: Deployment): Promise<boolean> {
  const { services: { gateway: { healthcheck: { test: [, , ...words] } } } } =
    await readCompose();
  const args = words.map((word) =>
    word.replace("127.0.0.1:8081", `127.0.0.1:${ports.get(8081)}`)
  );
  return (await new Deno.Command(Deno.execPath(), { args, stderr: "null" })
    .output()).success;
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
    const { spec: { template, replicas } } = ofKind(objects, "Deployment")[0]!;
    [this.pod, this.replicas] = [template.spec, replicas];
  }

  static async mount(): Promise<Volumes> {
    const volumes = new Volumes(await kubernetesObjects());
    for (
      const { name, projected: { sources: [source] } } of volumes.pod.volumes
    ) {
      const directory = volumes.#directories.use(await TempDirectory.make());
      await directory.mount(
        `${volumes.#version}`,
        volumes.#files(Object.values(source!)[0]!.name),
      );
      volumes.#byName.set(name, directory);
    }
    for (const [name, file] of [["data", ""], ["dist", PAGE]] as const) {
      volumes.#byName.set(
        name,
        volumes.#directories.use(
          await TempDirectory.make({ "index.html": file }),
        ),
      );
    }
    return volumes;
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
    const [{ volumeMounts }] = this.pod.containers;
    return [
      ...volumeMounts.map((
        { name, mountPath },
      ): Replacement => [mountPath, this.#byName.get(name)!.path]),
      ["/app/dist", this.#byName.get("dist")!.path],
      ["/data", this.#byName.get("data")!.path],
      ["http://denokv:4512", this.#byName.get("data")!.at("kv.sqlite3")],
      ["8081", `${healthPort}`],
      ["10.0.0.0/8", "127.0.0.1"],
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directories.disposeAsync();
  }

  #files(object: string): Record<string, string> {
    const { data, stringData } = this.#objects.find(({ metadata }) =>
      metadata.name === object
    )!;
    const placeholder = "REPLACE-WITH-THE-OUTPUT-OF-openssl-rand-base64-32";
    const files = Object.entries({ ...data, ...stringData });
    return Object.fromEntries(
      files.map((
        [name, text],
      ) => [name, text === placeholder ? MASTER_KEY : text]),
    );
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
    [this.process, this.ports, this.#spec] = [
      process,
      ports,
      volumes.pod.containers[0],
    ];
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
    const [{ args, env: variables, ports: [http, health] }] =
      volumes.pod.containers;
    const ports = new Map([[http!.name, findFreePort()], [
      health!.name,
      findFreePort(),
    ]]);
    const { words, env } = await imageStart(ports.get(http!.name)!);
    const process = await startHere({
      words: [...words, ...args],
      env: {
        ...env,
        ...Object.fromEntries(
          variables.map(({ name, value }) => [name, value]),
        ),
      },
      replacements: volumes.replacements(ports.get(health!.name)!),
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
    try {
      (await Deno.connect({
        hostname: "127.0.0.1",
        port: this.ports.get("http")!,
      })).close();
      return true;
    } catch {
      return false;
    }
  }

  /** Asks a probe once. */
  async probe({ httpGet: { path, port } }: Probe): Promise<boolean> {
    const { signal } = this.#stopped;
    try {
      const response = await fetch(
        `http://127.0.0.1:${this.ports.get(port)}${path}`,
        { signal },
      );
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
      await this.#pause(probe.periodSeconds * 1_000);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#stopped.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
