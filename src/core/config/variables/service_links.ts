import { filterKeys } from "@std/collections/filter-keys";
import { type Finding, suspiciousName } from "./finding.ts";
import type { Environment } from "./tiers.ts";

/*
 * For a Service named rep-public, Kubernetes sets REP_PUBLIC_SERVICE_HOST, REP_PUBLIC_PORT=tcp://HOST:PORT and others in
 * all pods of its namespace ("service links"), unless they have enableServiceLinks: false. Nobody chose these values. What
 * proves a link is an address with the host of the Service. What a pod sets itself under such a name replaces the link.
 */

const HOST = "_SERVICE_HOST";
/** What follows the name of the Service: `_PORT=tcp://…`, `_SERVICE_PORT_HTTP=80`, `_PORT_80_TCP_PROTO=tcp`. */
const LINK =
  /^_(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT_\d+_[A-Z]+_[A-Z]+|PORT(?:_\d+_[A-Z]+)?(?==\w+:\/\/))=/;
/** An address, such as `tcp://[fd00::1]:80`. Kubernetes writes IP addresses only. */
const ADDRESS = /^(tcp|udp|sctp):\/\/\[?([\d.]+|[\da-f:]+)\]?:(\d+)$/;

/** Finds service links, each with the name of its Service. */
function findServiceLinks(environment: Environment): Map<string, string> {
  const links = new Map<string, string>();
  const entries = Object.entries(environment);
  for (const [hostName, host] of entries) {
    if (!hostName.endsWith(HOST)) continue;
    const prefix = hostName.slice(0, -HOST.length);
    const service = prefix.toLowerCase().replaceAll("_", "-");
    const named = entries.filter(([name, value]) =>
      name.startsWith(prefix) &&
      LINK.test(`${name.slice(prefix.length)}=${value}`)
    );
    const addresses = named.map(([, value]) => ADDRESS.exec(value))
      .filter((address) => address?.[2] === host);
    const written = new Set(addresses.flatMap((parts) => parts));
    for (const [name, value] of named) {
      if (written.has(value)) links.set(name, service);
    }
  }
  return links;
}

/** Returns the variables that are no service links. */
export function withoutServiceLinks(environment: Environment): Environment {
  const links = findServiceLinks(environment);
  return filterKeys(environment, (name: string) => !links.has(name));
}

/** Returns one warning about all service links, or none. */
export function serviceLinkWarnings(environment: Environment): Finding[] {
  const links = findServiceLinks(environment);
  if (links.size === 0) return [];
  const services = [...new Set(links.values())].join(", ");
  const detail =
    `ignored, since Kubernetes sets it for the Service ${services}: expected enableServiceLinks: false in the pod`;
  return [suspiciousName([...links.keys()].join(", "), detail)];
}
