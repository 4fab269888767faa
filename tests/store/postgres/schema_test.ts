import { assertEquals, assertRejects } from "@std/assert";
import type { PostgresConnection } from "../../../src/store/postgres/connection.ts";
import { ensureSchema } from "../../../src/store/postgres/schema.ts";

Deno.test("ensureSchema() rejects if the transaction cannot be committed, and rolls it back", async () => {
  const statements: string[] = [];
  const query = (statement: string) => {
    statements.push(statement.trim().split(/\s/, 1)[0] ?? "");
    if (statement === "COMMIT") return Promise.reject(new Error("disk full"));
    return Promise.resolve(
      statement.includes("server_encoding") ? [{ encoding: "UTF8" }] : [],
    );
  };
  const connection = { query } as unknown as PostgresConnection;
  await assertRejects(
    () => ensureSchema(connection, "rep"),
    Error,
    "disk full",
  );
  assertEquals(statements.slice(-2), ["COMMIT", "ROLLBACK"]);
});
