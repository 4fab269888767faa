/** The shipped files for containers, systemd and Kubernetes, parsed. */
import { parse, parseAll } from "@std/yaml/parse";

/** Returns what follows a prefix in each line that begins with it; a line that ends with a backslash goes on. */
function linesAfter(prefix: string, text: string): string[] {
  const lines = text.replace(/\\\n\s*/g, "").split("\n");
  const found = lines.filter((line) => line.startsWith(prefix));
  return found.map((line) => line.slice(prefix.length));
}

/** Returns the arguments of each instruction of this name. */
export async function instructions(
  path: string,
  name: string,
): Promise<string[]> {
  const text = await Deno.readTextFile(path);
  return linesAfter(`${name} `, text.replace(/^#.*\n/gm, ""));
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
  const environment: Record<string, string> = {};
  for (const line of await instructions(path, "ENV")) {
    for (const assignment of line.trim().split(/\s+/)) {
      const [name = "", value = ""] = assignment.split("=");
      environment[name] = value;
    }
  }
  return environment;
}

const UNIT = await Deno.readTextFile("examples/systemd/rep-gateway.service");

/** Returns the values of a setting of the unit. */
export function unitSettings(name: string): string[] {
  return linesAfter(`${name}=`, UNIT);
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
      logging: { driver: string; options: Record<string, string> };
      healthcheck: { test: string[] };
    };
  };
  secrets: Record<string, { file: string }>;
}

/** Reads `examples/docker/compose.yaml`. */
export async function readCompose(): Promise<Compose> {
  const text = await Deno.readTextFile("examples/docker/compose.yaml");
  return parse(text) as Compose;
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
  const text = await Deno.readTextFile(`examples/kubernetes/${name}.yaml`);
  return parseAll(text) as KubernetesObject[];
}

/** Reads the objects that make up the gateway with its store. */
export async function kubernetesObjects(): Promise<KubernetesObject[]> {
  const names = ["config", "secrets", "gateway", "denokv"];
  const objects = await Promise.all(names.map(readObjects));
  return objects.flat();
}

/** Returns the objects of a kind. */
export function ofKind(
  objects: readonly KubernetesObject[],
  kind: string,
): KubernetesObject[] {
  return objects.filter((object) => object.kind === kind);
}
