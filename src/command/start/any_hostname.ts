import { type Log, messageOf } from "../../core/observe/log.ts";
import { isGranted } from "../../core/values/runtime.ts";
import { hostAndPort } from "../../core/values/urls.ts";
import { bindError } from "./listen.ts";

const IPV4 = "0.0.0.0";
const IPV6 = "::";

/**
 * Returns the hostname for every address of IPv4 and IPv6: `::`, or, with a warning, `0.0.0.0` if one socket cannot
 * serve both.
 *
 * @param listen Binds a port.
 * @throws {Error} If the port cannot be bound; the message names the address.
 */
export function anyHostname(
  port: number,
  log: Log,
  listen: typeof Deno.listen = Deno.listen,
): string {
  const reason = whyOnlyIPv4(port, listen);
  if (reason === undefined) return IPV6;
  const detail = `port ${port} is served over IPv4 only: ${reason}`;
  log.warn("rep.start.warning", { detail });
  return IPV4;
}

/**
 * Returns why an IPv6 socket cannot serve IPv4 as well; `undefined` if it can. Deno does not tell, so this holds the
 * port on IPv4 and tries to bind it on IPv6: that fails if the IPv6 socket would serve IPv4, too. (On macOS it does not
 * fail, but there, every such socket serves both.)
 */
function whyOnlyIPv4(
  port: number,
  listen: typeof Deno.listen,
): string | undefined {
  const ipv6 = hostAndPort(IPV6, port);
  if (!isNetGranted(ipv6)) return `expected --allow-net=${ipv6}`;
  if (!isNetGranted(hostAndPort(IPV4, port))) return undefined;
  using held = holdIPv4(port, listen);
  try {
    listen({ hostname: IPV6, port: held.addr.port }).close();
  } catch (error) {
    const isShared = error instanceof Deno.errors.AddrInUse;
    return isShared ? undefined : messageOf(error);
  }
  return Deno.build.os === "darwin" ? undefined : EXCLUDES_IPV4;
}

const EXCLUDES_IPV4 =
  "an IPv6 socket excludes IPv4 here; on Linux, set net.ipv6.bindv6only=0";

function isNetGranted(host: string): boolean {
  return isGranted({ name: "net", host });
}

function holdIPv4(port: number, listen: typeof Deno.listen): Deno.TcpListener {
  try {
    return listen({ hostname: IPV4, port });
  } catch (cause) {
    throw bindError(cause, hostAndPort(IPV4, port));
  }
}
