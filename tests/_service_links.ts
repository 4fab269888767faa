/** A port of a Service. */
interface ServicePort {
  readonly port: number;
  readonly name?: string;
  readonly protocol?: "tcp" | "udp" | "sctp";
}

/** Returns what Kubernetes sets for a Service in the pods of its namespace, as in its `pkg/kubelet/envvars`. */
export function serviceLinks(
  service: string,
  ip: string,
  ports: readonly ServicePort[] = [{ port: 8080, name: "http" }],
): Record<string, string> {
  const prefix = service.toUpperCase().replaceAll("-", "_");
  const host = ip.includes(":") ? `[${ip}]` : ip;
  const links: Record<string, string> = { [`${prefix}_SERVICE_HOST`]: ip };
  for (const [index, { port, name, protocol = "tcp" }] of ports.entries()) {
    const url = `${protocol}://${host}:${port}`;
    const base = `${prefix}_PORT_${port}_${protocol.toUpperCase()}`;
    if (index === 0) {
      links[`${prefix}_SERVICE_PORT`] = String(port);
      links[`${prefix}_PORT`] = url;
    }
    if (name !== undefined) {
      const suffix = name.toUpperCase().replaceAll("-", "_");
      links[`${prefix}_SERVICE_PORT_${suffix}`] = String(port);
    }
    links[base] = url;
    links[`${base}_PROTO`] = protocol;
    links[`${base}_PORT`] = String(port);
    links[`${base}_ADDR`] = ip;
  }
  return links;
}
