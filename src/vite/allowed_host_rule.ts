import { hostRule } from "../http/allowed_hosts.ts";
import { parseIp } from "../http/ip_address.ts";

/**
 * Returns Vite's own rule for the `Host` header, which Vite applies only after its plugins: this computer, IP addresses,
 * and `allowedHosts`, in which a leading dot stands for a domain with its subdomains.
 *
 * @param allowedHosts Vite's option; `true` allows any host.
 */
export function allowedHostRule(
  allowedHosts: readonly string[] | true | undefined = [],
): (host: string) => boolean {
  if (allowedHosts === true) return () => true;
  const patterns = allowedHosts.flatMap((host) =>
    host.startsWith(".") ? [host.slice(1), `*${host}`] : [host]
  );
  const isAllowed = hostRule(["localhost", "*.localhost", ...patterns]);
  return (host) => {
    const url = URL.parse(`http://${host}`);
    return url !== null &&
      (parseIp(url.hostname.replace(/^\[|\]$/g, "")) !== undefined ||
        isAllowed(url.origin));
  };
}
