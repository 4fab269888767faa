/** The shipped files for containers, systemd and Kubernetes, parsed. */
import { parse, parseAll } from "@std/yaml/parse";

/** Returns the arguments of each instruction of this name; a line that ends with a backslash goes on. */
export async function instructions(
  path: string,
  name: string,
): Promise<string[]> {
  const text = (await Deno.readTextFile(path)).replace(/^#.*\n/gm, "").replace(
    /\\\n\s*/g,
    "",
  );
  return text.split("\n").filter((line) => line.startsWith(`${name} `)).map((
    line,
  ) => line.slice(name.length + 1));
}

/** Returns an instruction that occurs once and has the form of a JSON array. */
export async function execForm(path: string, name: string): Promise<string[]> {
  const [only = "", ...others] = await instructions(path, name);
  if (others.length > 0) {
    throw new Error(
      `Cannot read ${name} in ${path}: expected one, got ${others.length + 1}`,
    );
  }
  return JSON.parse(only);
}

/** Returns the variables that an image sets for its command. */
export async function imageEnvironment(
  path: string,
): Promise<Record<string, string>> {
  const assignments = (await instructions(path, "ENV")).flatMap((line) =>
    line.trim().split(/\s+/)
  );
  return Object.fromEntries(
    assignments.map((assignment) => assignment.split("=") as [string, string]),
  );
}

const UNIT = await Deno.readTextFile("examples/systemd/rep-gateway.service");

/** Returns the values of a setting of the unit. */
export function unitSettings(name: string): string[] {
  const lines = UNIT.replace(/\\\n\s*/g, "").split("\n");
  return lines.filter((line) => line.startsWith(`${name}=`)).map((line) =>
    line.slice(name.length + 1)
  );
}

/** The parts of a Compose file that are used. */
export interface Compose {
  services: {
    gateway: {
      command: string[];
      environment: Record<string, string>;
      ports: string[];
      secrets: string[];
      volumes: string[];
      read_only: boolean;
      cap_drop: string[];
      security_opt: string[];
      stop_grace_period: string;
      healthcheck: { test: string[] };
    };
  };
  secrets: Record<string, { file: string }>;
}

/** Reads `examples/docker/compose.yaml`. */
export async function readCompose(): Promise<Compose> {
  return parse(
    await Deno.readTextFile("examples/docker/compose.yaml"),
  ) as Compose;
}

/** The parts of Kubernetes objects that are used. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; annotations?: Record<string, string> };
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  spec: {
    replicas: number;
    selector?: Record<string, unknown>;
    ports: { name: string; port: number; targetPort: string }[];
    template: {
      metadata: {
        labels: Record<string, string>;
        annotations?: Record<string, string>;
      };
      spec: PodSpec;
    };
  };
}

/** The parts of a pod that are used. */
export interface PodSpec {
  terminationGracePeriodSeconds: number;
  securityContext: Record<string, unknown>;
  containers: [{
    args: string[];
    env: { name: string; value: string }[];
    ports: { name: string; containerPort: number }[];
    securityContext: unknown;
    volumeMounts: { name: string; mountPath: string }[];
    startupProbe: Probe;
    readinessProbe: Probe;
    livenessProbe: Probe;
  }];
  volumes: {
    name: string;
    projected: { sources: Record<string, { name: string }>[] };
  }[];
}

/** A probe of the kubelet. */
export interface Probe {
  httpGet: { path: string; port: string };
  periodSeconds: number;
  failureThreshold: number;
}

/** Reads the objects of a file in `examples/kubernetes`. */
export async function readObjects(name: string): Promise<KubernetesObject[]> {
  return parseAll(
    await Deno.readTextFile(`examples/kubernetes/${name}.yaml`),
  ) as KubernetesObject[];
}

/** Reads the objects that make up the gateway with its store. */
export async function kubernetesObjects(): Promise<KubernetesObject[]> {
  return (await Promise.all(
    ["config", "secrets", "gateway", "denokv"].map(readObjects),
  )).flat();
}

/** Returns the objects of a kind. */
export function ofKind(
  objects: readonly KubernetesObject[],
  kind: string,
): KubernetesObject[] {
  return objects.filter((object) => object.kind === kind);
}
