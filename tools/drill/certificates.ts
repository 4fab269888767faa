import { join } from "@std/path";
import { run } from "./process.ts";

/** The host of all certificates: a name would be looked up for each connection, also through a proxy. */
export const HOST = "127.0.0.1";

/** An authority of the drill's own, and what it signs. */
export class Certificates {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Creates the authority in a directory. */
  static async create(directory: string): Promise<Certificates> {
    const certificates = new Certificates(directory);
    const at = (name: string) => join(directory, name);
    await Deno.writeTextFile(at("index"), "");
    await Deno.writeTextFile(at("serial"), "01\n");
    await Deno.writeTextFile(at("openssl.cnf"), config(directory));
    await certificates.#openssl(
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt"],
      ...["ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
      ...["-subj", "/CN=drill", "-addext", "keyUsage=keyCertSign"],
      ...["-keyout", at("ca.key"), "-out", at("ca.crt")],
    );
    return certificates;
  }

  /** The authority, for clients. */
  async authority(): Promise<string> {
    return await Deno.readTextFile(join(this.#directory, "ca.crt"));
  }

  /** Signs a certificate that is valid until then; returns chain and key. */
  async sign(end: Date): Promise<{ cert: string; key: string }> {
    const at = (name: string) => join(this.#directory, name);
    await this.#openssl(
      ...["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
      ...["-nodes", "-subj", `/CN=${HOST}`],
      ...["-keyout", at("server.key"), "-out", at("server.csr")],
    );
    await this.#openssl(
      ...["ca", "-batch", "-notext"],
      ...["-config", at("openssl.cnf"), "-in", at("server.csr")],
      ...["-startdate", utcTime(new Date(0)), "-enddate", utcTime(end)],
      ...["-out", at("server.crt")],
    );
    return {
      cert: await Deno.readTextFile(at("server.crt")),
      key: await Deno.readTextFile(at("server.key")),
    };
  }

  async #openssl(...args: string[]): Promise<void> {
    const { code, text } = await run("openssl", args);
    if (code !== 0) throw new Error(`Cannot run openssl ${args[0]}: ${text}`);
  }
}

/** A time as `openssl ca` reads it: 20261122231500Z. */
function utcTime(time: Date): string {
  return `${time.toISOString().replace(/\D/g, "").slice(0, 14)}Z`;
}

function config(directory: string): string {
  return `
[ca]
default_ca = drill
[drill]
database = ${directory}/index
serial = ${directory}/serial
new_certs_dir = ${directory}
certificate = ${directory}/ca.crt
private_key = ${directory}/ca.key
default_md = sha256
policy = any
unique_subject = no
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:${HOST}
`;
}
