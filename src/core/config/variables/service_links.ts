import type { Suspicion } from "./suspicious_values.ts";
import type { Environment } from "./tiers.ts";

/*
 * For a Service named rep-public, Kubernetes sets REP_PUBLIC_SERVICE_HOST, REP_PUBLIC_PORT=tcp://HOST:PORT and others in
 * all pods of its namespace ("service links"), unless they have enableServiceLinks: false. Nobody chose these values. What
 * proves a link is an address with the host of the Service. What a pod sets itself under such a name replaces the link.
 */

const HOST = "_SERVICE_HOST";
/** An address, after the name of the Service: `_PORT_80_TCP=tcp://[fd00::1]:80`. Kubernetes writes IP addresses only. */
const ADDRESS =
  /^_PORT(?:_\d+_[A-Z]+)?=(tcp|udp|sctp):\/\/\[?([\d.]+|[\da-f:]+)\]?:(\d+)$/;
/** A part of an address: `_SERVICE_PORT_HTTP=80`, `_PORT_80_TCP_PROTO=tcp`. */
const PART =
  /^_(?:SERVICE_(?:HOST|PORT(?:_.+)?)|PORT_\d+_[A-Z]+_(?:PROTO|PORT|ADDR))=(.*)$/;

/** Finds service links, each with the name of its Service. */
function findServiceLinks(environment: Environment): Map<string, string> {
  const links = new Map<string, string>();
  const entries = Object.entries(environment);
  for (const [hostName, host] of entries) {
    if (!hostName.endsWith(HOST)) continue;
    const prefix = hostName.slice(0, -HOST.length);
    const texts = entries.filter(([name]) => name.startsWith(prefix))
      .map(([name, value]) => `${name.slice(prefix.length)}=${value}`);
    const addresses = texts.map((text) => ADDRESS.exec(text))
      .filter((address) => address?.[2] === host);
    const expected = new Set(addresses.flatMap((address) => address));
    for (const text of texts) {
      const [part = text] = PART.exec(text)?.slice(1) ?? [];
      if (!expected.has(part)) continue;
      const [name] = text.split("=", 1);
      links.set(`${prefix}${name}`, prefix.toLowerCase().replaceAll("_", "-"));
    }
  }
  return links;
}

/** Returns the variables that are no service links. */
export function withoutServiceLinks(environment: Environment): Environment {
  const links = findServiceLinks(environment);
  const entries = Object.entries(environment);
  return Object.fromEntries(entries.filter(([name]) => !links.has(name)));
}

/** Returns one warning about all service links, or none. */
export function serviceLinkWarnings(
  environment: Environment,
): Suspicion[] {
  const links = findServiceLinks(environment);
  if (links.size === 0) return [];
  const services = [...new Set(links.values())].join(", ");
  const detail =
    `ignored, since Kubernetes sets it for the Service ${services}: expected enableServiceLinks: false in the pod`;
  return [{ name: [...links.keys()].join(", "), detail }];
}
