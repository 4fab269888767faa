import { join } from "@std/path";
import { ASSET_PATH, PAGE_PATH, type Site } from "./_site.ts";

/** What a row requests, and from which gateway. */
export interface HttpWork {
  readonly name: string;
  readonly work: string;
  readonly path: string;
  /** The options of the gateway. */
  readonly args: (site: Site, upstreamPort: number) => readonly string[];
  /** Whether the gateway passes on what an upstream sends. */
  readonly isProxied?: boolean;
  /** Whether each request comes from another client. */
  readonly hasDistinctClients?: boolean;
  /** Whether the client has requested too much before. */
  readonly isOverLimit?: boolean;
}

const embedded = (
  { directory }: Site,
) => ["--static-dir", directory, "--kv", ":memory:"];
const proxy = (
  _: Site,
  port: number,
) => ["--upstream", `http://127.0.0.1:${port}`, "--kv", ":memory:"];
/** The options of a gateway whose clients are named by the load generator. */
export const TRUSTING = ["--trusted-proxies", "127.0.0.1"];
/** Returns the path of the KV file of a site. */
export const kvPathOf = ({ root }: Site) => join(root, "kv.sqlite3");
const KEY_PATH = "/rep/session-key";

/** The rows of the table that are HTTP requests. */
export const HTTP_WORK: readonly HttpWork[] = [
  {
    name: "health",
    work: "`/rep/health`",
    path: "/rep/health",
    args: embedded,
  },
  {
    name: "static_page",
    work: "static page of 11 KB with payload",
    path: PAGE_PATH,
    args: embedded,
  },
  {
    name: "static_asset",
    work: "static asset of 100 KB",
    path: ASSET_PATH,
    args: embedded,
  },
  {
    name: "limited_key",
    work: "session key, client over its limit",
    path: KEY_PATH,
    args: embedded,
    isOverLimit: true,
  },
  {
    name: "distinct_keys",
    work: "session key, distinct clients, KV file",
    path: KEY_PATH,
    args: (site) => ["--kv", kvPathOf(site), ...TRUSTING],
    hasDistinctClients: true,
  },
  {
    name: "proxied_page",
    work: "proxied page of 11 KB",
    path: PAGE_PATH,
    args: proxy,
    isProxied: true,
  },
  {
    name: "proxied_asset",
    work: "proxied asset of 100 KB",
    path: ASSET_PATH,
    args: proxy,
    isProxied: true,
  },
];
