// @refresh reload
import { respond } from "@rep/gateway/server";
import { createHandler, StartServer } from "@solidjs/start/server";

const handler = createHandler(() => (
  <StartServer
    document={({ assets, children, scripts }) => (
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          {assets}
        </head>
        <body>
          <div id="app">{children}</div>
          {scripts}
        </body>
      </html>
    )}
  />
));

export default {
  fetch(request: Request): Promise<Response> {
    // In development as well: this is not Vite's process.
    return respond(request, () => handler.fetch(request), {
      envFile: { path: "app.env", required: false },
    });
  },
};
