/** The certificate of the command: served, reloaded when it is renewed, and kept when the new one cannot be used. */
import { assertEquals } from "@std/assert";
import { type RunningCommand, startCommand } from "./_command.ts";
import { serveLocally } from "./_serve.ts";
import { serveUploads, startUpload } from "./_slow_upload.ts";
import { TempDirectory } from "./_temp.ts";
import { findFreePort } from "../tools/free_port.ts";

const FIXTURES = new URL("./content/proxy/tls/", import.meta.url);
const read = (name: string) => Deno.readTextFile(new URL(name, FIXTURES));

/** A running command with its own copy of the certificate, and a client that trusts the certificate's authority. */
interface TlsCommand extends AsyncDisposable {
  command: RunningCommand;
  directory: TempDirectory;
  fetch(path: string): Promise<Response>;
}

async function startTlsCommand(
  flags: string[] = [],
  permissions?: string[],
): Promise<TlsCommand> {
  const directory = await TempDirectory.make({
    "cert.pem": `${await read("localhost.crt")}${await read("ca.crt")}`, // a chain
    "key.pem": await read("localhost.key"),
    "app.env": "REP_PUBLIC_A=1\n",
  });
  const files = [
    "--tls-cert",
    directory.at("cert.pem"),
    "--tls-key",
    directory.at("key.pem"),
  ];
  const sources = [
    "--env-file",
    directory.at("app.env"),
    "--kv=:memory:",
    "--hot-reload",
  ];
  const command = await startCommand(
    [...files, ...sources, ...flags],
    {},
    permissions,
  );
  const client = Deno.createHttpClient({ caCerts: [await read("ca.crt")] });
  return {
    command,
    directory,
    fetch: (path) => fetch(`${command.url}${path}`, { client }),
    async [Symbol.asyncDispose]() {
      client.close();
      await command[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** The same certificate with a comment: another file, as after a renewal. */
async function renew({ directory }: TlsCommand): Promise<void> {
  await directory.write(
    "cert.pem",
    `# renewed\n${await read("localhost.crt")}${await read("ca.crt")}`,
  );
}

async function statusOf({ fetch }: TlsCommand): Promise<string> {
  return (await (await fetch("/rep/health")).json()).status;
}

const isReloaded = ({ msg }: { msg: string }) => msg === "rep.tls.reloaded";

Deno.test("SIGHUP reloads a renewed certificate, and open streams stay", async () => {
  await using tls = await startTlsCommand();
  const stream = await tls.fetch("/rep/changes");
  const reader = stream.body!.getReader();
  await reader.read();
  await renew(tls);
  tls.command.signal("SIGHUP");
  // openssl x509 -in localhost.crt -noout -enddate
  const { not_after } = await tls.command.logged(isReloaded);
  assertEquals(not_after, "2126-10-29T12:39:13.000Z");
  assertEquals(await statusOf(tls), "healthy");
  await tls.directory.write("app.env", "REP_PUBLIC_A=2\n");
  tls.command.signal("SIGHUP");
  const { value } = await reader.read();
  assertEquals(
    new TextDecoder().decode(value).split("\n")[0],
    "event: rep:config:update",
  );
  await reader.cancel();
});

async function connect({ command }: TlsCommand): Promise<Deno.Conn> {
  const port = Number(new URL(command.url).port);
  const caCerts = [await read("ca.crt")];
  return await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts });
}

Deno.test("a renewed certificate waits for uploads over HTTP/1.1", async () => {
  await using upstream = serveUploads();
  await using tls = await startTlsCommand(["--upstream", upstream.url]);
  using upload = await startUpload(await connect(tls));
  await upstream.begun;
  await renew(tls);
  tls.command.signal("SIGHUP");
  await new Promise((resolve) => setTimeout(resolve, 500)); // longer than the renewal took
  assertEquals(await statusOf(tls), "healthy"); // connections reach the old listener meanwhile
  await upload.finish();
  assertEquals(await upload.statusLine(), "HTTP/1.1 200 OK");
  await tls.command.logged(isReloaded);
  assertEquals(await statusOf(tls), "healthy");
});

Deno.test("a renewed certificate waits for uploads no longer than --drain, and logs what it cuts off", async () => {
  await using upstream = serveUploads();
  const flags = ["--upstream", upstream.url, "--drain=300ms"];
  await using tls = await startTlsCommand(flags);
  using _upload = await startUpload(await connect(tls));
  await upstream.begun;
  await renew(tls);
  tls.command.signal("SIGHUP");
  await tls.command.logged(isReloaded);
  const { requests } = await tls.command.logged(({ msg }) =>
    msg === "rep.requests.cut_off"
  );
  assertEquals(requests, 1);
  assertEquals(await statusOf(tls), "healthy");
});

Deno.test("file_watch notices a renewed certificate", async () => {
  await using tls = await startTlsCommand(["--hot-reload-mode=file_watch"]);
  await renew(tls);
  await tls.command.logged(isReloaded);
  assertEquals(await statusOf(tls), "healthy");
});

Deno.test("a certificate that cannot be used is rejected, and the previous one stays; until one is accepted, that is a problem", async () => {
  await using tls = await startTlsCommand();
  await tls.directory.write("cert.pem", "half a certif");
  tls.command.signal("SIGHUP");
  const { detail } = await tls.command.logged(({ msg }) =>
    msg === "rep.tls.rejected"
  );
  assertEquals(
    detail,
    `the previous certificate stays: Cannot use --tls-cert "${
      tls.directory.at("cert.pem")
    }" with --tls-key ` +
      `"${
        tls.directory.at("key.pem")
      }": No certificates found in certificate data`,
  );
  const { status, problems, problems_since: { certificate_rejected: since } } =
    await (await tls.fetch("/rep/health")).json();
  assertEquals([status, problems], ["degraded", ["certificate_rejected"]]);
  assertEquals(Math.abs(Date.now() - Date.parse(since)) < 60_000, true);
  await tls.directory.write("cert.pem", "another half");
  tls.command.signal("SIGHUP");
  await tls.command.logged(({ msg }) => msg === "rep.tls.rejected");
  const later = await (await tls.fetch("/rep/health")).json();
  assertEquals(later.problems_since, { certificate_rejected: since });
  await renew(tls);
  tls.command.signal("SIGHUP");
  await tls.command.logged(isReloaded);
  assertEquals(await statusOf(tls), "healthy");
});

Deno.test("a rejected certificate is no problem any more once the files have the one in use again", async () => {
  await using tls = await startTlsCommand(["--hot-reload-mode=file_watch"]);
  const inUse = await Deno.readTextFile(tls.directory.at("cert.pem"));
  await tls.directory.write("cert.pem", "half a certif");
  await tls.command.logged(({ msg }) => msg === "rep.tls.rejected");
  assertEquals(await statusOf(tls), "degraded");
  await tls.directory.write("cert.pem", inUse);
  await tls.command.logged(isReloaded);
  assertEquals(await statusOf(tls), "healthy");
});

Deno.test("a renewed certificate needs the permission for the port only", async () => {
  const port = String(findFreePort());
  const permissions = [
    "--allow-env",
    "--allow-read",
    `--allow-net=127.0.0.1:${port}`,
  ];
  await using tls = await startTlsCommand(["--port", port], permissions);
  await renew(tls);
  tls.command.signal("SIGHUP");
  await tls.command.logged(({ msg }) =>
    msg === "rep.tls.reloaded" || msg === "rep.tls.rejected"
  );
  assertEquals(
    tls.command.output.filter((line) => line.includes("rep.tls.rejected")),
    [],
  );
  assertEquals(await statusOf(tls), "healthy");
});

/** Sends a request line with a host other than the `Host` header, and returns the last line of the response. */
async function askInAbsoluteForm(
  connection: Deno.Conn,
  target: string,
  more = "",
): Promise<string | undefined> {
  const head = `GET ${target} HTTP/1.1\r\nHost: app.example\r\n${more}\r\n`;
  await connection.write(new TextEncoder().encode(head));
  const buffer = new Uint8Array(4_096);
  const size = await connection.read(buffer) ?? 0;
  connection.close();
  return new TextDecoder().decode(buffer.subarray(0, size)).split("\r\n").at(
    -1,
  );
}

Deno.test("the upstream learns the scheme of the connection or of a trusted proxy, not that of a target in absolute form", async () => {
  await using upstream = serveLocally(({ headers }) => {
    const names = ["x-forwarded-proto", "x-forwarded-host"];
    return new Response(names.map((name) => headers.get(name)).join(" "));
  });
  const flags = ["--upstream", upstream.url];
  const forwarded = "X-Forwarded-Proto: https\r\n";
  {
    await using tls = await startTlsCommand(flags);
    const ask = async (target: string) =>
      await askInAbsoluteForm(await connect(tls), target);
    assertEquals(await ask("http://other.example/"), "https other.example");
    assertEquals(await ask("/"), "https app.example");
  }
  for (const trust of [[], ["--trusted-proxies=127.0.0.1"]]) {
    await using command = await startCommand([
      ...flags,
      ...trust,
      "--kv=:memory:",
    ]);
    const port = Number(new URL(command.url).port);
    const ask = async (target: string, more?: string) => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      return await askInAbsoluteForm(connection, target, more);
    };
    const isTrusted = trust.length > 0;
    assertEquals(await ask("https://other.example/"), "http other.example");
    assertEquals(await ask("/"), "http app.example");
    assertEquals(
      await ask("http://other.example/", forwarded),
      isTrusted ? "https other.example" : "http other.example",
    );
  }
});
