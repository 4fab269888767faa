import { assertEquals } from "@std/assert";
import { readTls } from "../../../src/cli/start/tls.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test("readTls() returns the texts of both files and their names", async () => {
  await using directory = await TempDirectory.make({ "a.crt": "the certificate", "a.key": "the key" });
  const [certFile, keyFile] = [directory.at("a.crt"), directory.at("a.key")];
  const expected = { cert: "the certificate", key: "the key", certFile, keyFile };
  assertEquals(await readTls({ "tls-cert": certFile, "tls-key": keyFile }), expected);
});

Deno.test("readTls() returns undefined unless both options are set", async () => {
  assertEquals(await readTls({ "tls-cert": undefined, "tls-key": undefined }), undefined);
  assertEquals(await readTls({ "tls-cert": "a.crt", "tls-key": undefined }), undefined);
});
