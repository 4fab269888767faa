import { assertEquals } from "@std/assert";
import { readTls } from "../../../src/cli/sources/secret_files.ts";
import { TempDirectory } from "../../_temp.ts";

/** openssl x509 -in localhost.crt -noout -enddate: Oct 29 12:39:13 2126 GMT */
const NOT_AFTER = new Date("2126-10-29T12:39:13Z");

Deno.test("readTls() reads the end of the first certificate, whatever is around it", async () => {
  const read = (name: string) =>
    Deno.readTextFile(
      new URL(`../../content/proxy/tls/${name}`, import.meta.url),
    );
  const cert = `# renewed\n${await read("localhost.crt")}${await read(
    "ca.crt",
  )}`;
  await using directory = await TempDirectory.make({
    "a.crt": cert,
    "a.key": "",
  });
  const tls = await readTls({
    "tls-cert": directory.at("a.crt"),
    "tls-key": directory.at("a.key"),
  });
  assertEquals(tls?.notAfter, NOT_AFTER);
});
