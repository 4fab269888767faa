import { isAppName } from "../../core/store/app_store.ts";
import { hostOf } from "../../core/values/urls.ts";

/** The site that answers hosts without a site of their own. */
export const DEFAULT_SITE = "default";

/** What a directory of a site may be called, for messages. */
export const EXPECTED_SITE =
  "a host such as shop.example.com, in lower case and in Punycode, without a port";

/**
 * Returns whether a directory can be that of a site: its name is a host exactly as browsers send it, or that of the default
 * site. It is also the name of the site's app in the store.
 */
export function isSiteName(name: string): boolean {
  const url = URL.parse(`http://${name}/`);
  return url?.hostname === name && !name.endsWith(".") && isAppName(name);
}

/** Returns the host in an origin, which a client may have sent with a port and with the dot of the root. */
export function hostIn(origin: string): string {
  return hostOf(new URL(origin));
}
