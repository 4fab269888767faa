import { assertEquals } from "@std/assert";
import {
  methodNotAllowed,
  Problem,
  problemResponse,
} from "../../../src/core/http/problem.ts";
import { answerOf } from "../../_answer.ts";

Deno.test("problemResponse() returns application/problem+json with title, status and detail", async () => {
  assertEquals(
    await answerOf(
      problemResponse(
        new Problem(404, { detail: "Nothing found at this path" }),
      ),
    ),
    {
      status: 404,
      headers: {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
      },
      body: {
        title: "Not Found",
        status: 404,
        detail: "Nothing found at this path",
      },
    },
  );
});

Deno.test("problemResponse() keeps the problem's headers, Cache-Control included", async () => {
  const headers = {
    "retry-after": "7",
    "cache-control": "no-cache",
    "content-type": "text/html",
    "vary": "Origin",
  };
  assertEquals(
    await answerOf(
      problemResponse(new Problem(429, { detail: "Later", headers })),
    ),
    {
      status: 429,
      headers: {
        "content-type": "application/problem+json",
        "cache-control": "no-cache",
        "retry-after": "7",
        "vary": "Origin",
      },
      body: { title: "Too Many Requests", status: 429, detail: "Later" },
    },
  );
});

Deno.test("methodNotAllowed() lists the allowed methods in the header and in the detail", async () => {
  assertEquals(
    await answerOf(problemResponse(methodNotAllowed("POST", ["GET", "HEAD"]))),
    {
      status: 405,
      headers: {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "allow": "GET, HEAD",
      },
      body: {
        title: "Method Not Allowed",
        status: 405,
        detail: "Cannot use method POST here: expected GET or HEAD",
      },
    },
  );
});

Deno.test("methodNotAllowed() keeps other headers and does not modify its argument", () => {
  const headers = new Headers({ vary: "Origin" });
  const problem = methodNotAllowed("PUT", ["GET"], headers);
  assertEquals([...problem.headers], [
    ["allow", "GET"],
    ["cache-control", "no-store"],
    ["content-type", "application/problem+json"],
    ["vary", "Origin"],
  ]);
  assertEquals([...headers], [["vary", "Origin"]]);
});

Deno.test("methodNotAllowed() truncates a long method", () => {
  assertEquals(
    methodNotAllowed("X".repeat(9_000), ["GET"]).message,
    `Cannot use method ${"X".repeat(20)} here: expected GET`,
  );
});
