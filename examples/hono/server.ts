/** A Hono app that uses the gateway as a middleware, and sends a Content Security Policy with a nonce. */
import { type Context, Hono } from "hono";
import {
  NONCE,
  secureHeaders,
  type SecureHeadersVariables,
} from "hono/secure-headers";
import { createGateway, createLog } from "@rep/gateway";
import { readEnvFile, watchFiles } from "@rep/gateway/sources";
import { configuration } from "./configuration.ts";

type Env = {
  Bindings: Deno.ServeHandlerInfo;
  Variables: SecureHeadersVariables;
};

const [path = "app.env", port = "8000"] = Deno.args;

const gateway = await createGateway({
  variables: () => readEnvFile(path),
  hotReload: true,
  log: createLog(),
});

await watchFiles([path], () => {
  gateway.reload().catch(() => {}); // the log says why, and the previous variables stay active
});

const app = new Hono<Env>();

app.use(configuration(gateway));

app.use(secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: [NONCE],
    connectSrc: ["'self'"],
    imgSrc: ["data:"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
    requireTrustedTypesFor: ["'script'"],
  },
}));

function page(context: Context<Env>): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Hono</title>
    <link rel="icon" href="data:,">
    <script type="module" nonce="${context.get("secureHeadersNonce")}">
      import { get, getSecure, onChange } from "/rep/client.js";

      const showTitle = () => document.querySelector("h1").textContent = get("TITLE");
      showTitle();
      onChange("TITLE", showTitle);
      document.querySelector("button").addEventListener("click", async () => {
        document.querySelector("output").textContent = await getSecure("MAP_KEY");
      });
    </script>
  </head>
  <body>
    <main>
      <h1></h1>
      <button type="button">Decrypt</button>
      <output></output>
    </main>
  </body>
</html>`;
}

app.get("/", (context) => context.html(page(context)));
app.get(
  "/api/time",
  (context) => context.json({ time: new Date().toISOString() }),
);

Deno.serve({ hostname: "127.0.0.1", port: Number(port) }, app.fetch);
