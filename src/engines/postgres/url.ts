import { messageOf } from "../../core/observe/log.ts";
import { hostAndPort, redactUrl } from "../../core/values/urls.ts";

/** One of the servers that a URL names. */
export interface PostgresHost {
  readonly hostname: string;
  readonly port: number;
}

/** The parts of a `postgres://` URL. */
export type PostgresTarget = ReturnType<typeof toTarget>;

const EXPECTED =
  "postgres://USER[:PASSWORD]@HOST[:PORT][,HOST[:PORT] ...]/DATABASE[?schema=NAME&password_file=FILE&sslmode=…&sslrootcert=FILE]";

const URL_PARTS =
  /^postgres(?:ql)?:\/\/(?<user>[^:@/?#]+)(?::(?<password>[^@/?#]*))?@(?<hosts>[^@/?#]+)\/(?<database>[^/?#]+)(?:\?(?<query>[^#]*))?$/;
const HOST =
  /^(?:\[(?<ipv6>[\da-f:.]+)\]|(?<name>[^:[\]]+))(?::(?<port>\d{1,5}))?$/i;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i;
/** An unquoted identifier of at most 63 bytes, so that it is written the same everywhere. */
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;

const DEFAULT_PORT = 5432;
const DEFAULT_SCHEMA = "rep_gateway";

const PARAMETERS = [
  "schema",
  "password_file",
  "sslmode",
  "sslrootcert",
];

/** Whether a value of `--kv` names a PostgreSQL server. */
export function isPostgresUrl(path: string): boolean {
  return /^postgres(ql)?:\/\//.test(path);
}

/**
 * Parses a URL as `libpq` knows it (PostgreSQL, "Connection URIs"), with several hosts. `URL` cannot: it accepts one
 * host.
 *
 * `sslmode` is `verify-full`, or `disable` if every host is a loopback address. The other modes of `libpq` do not
 * verify the identity of the server, and are rejected.
 *
 * @throws {TypeError} If it is invalid. The message contains neither user nor password.
 */
export function parsePostgresUrl(url: string): PostgresTarget {
  const parts = URL_PARTS.exec(url)?.groups;
  if (parts === undefined) {
    throw new TypeError(
      `Cannot open the store "${redactUrl(url)}": expected ${EXPECTED}`,
    );
  }
  try {
    return toTarget(parts);
  } catch (error) {
    const reason = error instanceof URIError
      ? "expected special characters to be percent-encoded"
      : messageOf(error);
    throw new TypeError(`Cannot open the store "${redactUrl(url)}": ${reason}`);
  }
}

/** Formats a URL for messages, without credentials and parameters. */
export function formatHosts({ hosts }: PostgresTarget): string {
  return hosts.map(({ hostname, port }) => hostAndPort(hostname, port)).join();
}

function toTarget(
  { user = "", password, hosts: hostList = "", database = "", query = "" }:
    Record<string, string>,
) {
  const hosts = hostList.split(",").map(parseHost);
  const parameters = new URLSearchParams(query);
  const unknown = [...parameters.keys()].find((name) =>
    !PARAMETERS.includes(name)
  );
  if (unknown !== undefined) {
    throw new TypeError(
      `expected the parameters ${PARAMETERS.join(", ")}, got "${unknown}"`,
    );
  }
  return {
    /** The servers in the order in which they are tried; the one that accepts writes is used. */
    hosts,
    user: decodeURIComponent(user),
    /** The password, if the URL has one. */
    password: password === undefined ? undefined : decodeURIComponent(password),
    /** The file with the password; read for every connection, so that the password can be rotated. */
    passwordFile: parameters.get("password_file") ?? undefined,
    database: decodeURIComponent(database),
    /** The schema of the gateway's tables. Gateways with different schemas share nothing. */
    schema: parseSchema(parameters.get("schema") ?? DEFAULT_SCHEMA),
    /** Whether connections are encrypted and the server's certificate is verified. */
    isEncrypted: parseSslMode(parameters.get("sslmode"), hosts),
    /** The file with the certificate authorities to trust instead of Deno's. */
    caFile: parameters.get("sslrootcert") ?? undefined,
  };
}

function parseHost(host: string): PostgresHost {
  const { ipv6, name, port = String(DEFAULT_PORT) } = HOST.exec(host)?.groups ??
    {};
  const hostname = ipv6 ?? name;
  if (hostname === undefined || Number(port) > 65_535) {
    throw new TypeError(`expected HOST or HOST:PORT, got "${host}"`);
  }
  return { hostname, port: Number(port) };
}

function parseSchema(schema: string): string {
  if (SCHEMA.test(schema) && !schema.startsWith("pg_")) return schema;
  throw new TypeError(
    `expected a schema of lower-case letters, digits and underscores, got "${schema}"`,
  );
}

function parseSslMode(
  mode: string | null,
  hosts: readonly PostgresHost[],
): boolean {
  if (mode === null) {
    return !hosts.every(({ hostname }) => LOOPBACK.test(hostname));
  }
  if (mode === "verify-full" || mode === "disable") {
    return mode === "verify-full";
  }
  throw new TypeError(
    `expected sslmode to be verify-full or disable, got "${mode}"`,
  );
}
