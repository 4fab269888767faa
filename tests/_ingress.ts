/** What an Ingress controller makes of `examples/kubernetes/ingress.yaml`: a configuration of nginx. */
import { parse } from "@std/yaml/parse";

/** The parts of an Ingress that are used. */
export interface Ingress {
  metadata: { annotations: Record<string, string> };
  spec: {
    tls: [{ hosts: string[] }];
    rules: [{ host: string; http: { paths: [IngressPath] } }];
  };
}

/** A path of an Ingress, and the Service behind it. */
interface IngressPath {
  path: string;
  pathType: string;
  backend: { service: { name: string; port: { name: string } } };
}

/** Reads a shipped Ingress. */
export async function readIngress(file = "ingress.yaml"): Promise<Ingress> {
  return parse(
    await Deno.readTextFile(`examples/kubernetes/${file}`),
  ) as Ingress;
}

/** The directive that an annotation sets, in the words of the two controllers. */
const DIRECTIVES: Record<string, (value: string) => string> = {
  "nginx.org/proxy-read-timeout": (value) => `proxy_read_timeout ${value};`,
  "nginx.ingress.kubernetes.io/proxy-read-timeout": (value) =>
    `proxy_read_timeout ${value}s;`,
  "nginx.ingress.kubernetes.io/limit-connections": (value) =>
    `limit_conn per_client ${value};`,
  "nginx.ingress.kubernetes.io/proxy-next-upstream": (value) =>
    `proxy_next_upstream ${value};`,
  "nginx.ingress.kubernetes.io/proxy-next-upstream-tries": (value) =>
    `proxy_next_upstream_tries ${value};`,
};

/**
 * Returns the configuration. What no annotation sets is as in the controllers; where they differ, it is the harder
 * case: responses are buffered, and the client's own `X-Forwarded-For` is kept and appended to.
 *
 * @param controller The prefix of the annotations that the controller reads.
 * @param endpoints The addresses of the pods that are ready.
 */
export function ingressConfig(
  { metadata, spec }: Ingress,
  controller: string,
  endpoints: readonly string[],
): string {
  const [{ host, http: { paths: [{ path }] } }] = spec.rules;
  const annotations = Object.entries(metadata.annotations).filter(([name]) =>
    name.startsWith(controller)
  );
  const directives = annotations.map(([name, value]) => {
    const directive = DIRECTIVES[name];
    if (directive === undefined) {
      throw new Error(
        `Cannot apply the annotation ${name}: expected one of the known ones`,
      );
    }
    return directive(value);
  });
  return `
events {}
http {
  limit_conn_zone $binary_remote_addr zone=per_client:10m;
  map $http_upgrade $connection_header { default upgrade; "" ""; }
  upstream pods {
    ${endpoints.map((endpoint) => `server ${endpoint};`).join(" ")}
    keepalive 64;
  }
  server {
    listen 443 ssl http2;
    server_name ${host};
    ssl_certificate /etc/ssl/gateway.crt;
    ssl_certificate_key /etc/ssl/gateway.key;
    location ${path} {
      ${directives.join("\n      ")}
      proxy_pass http://pods;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Port 443;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_header;
    }
  }
}
`;
}
