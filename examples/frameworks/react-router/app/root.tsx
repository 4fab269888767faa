import { Links, Meta, Outlet, Scripts, ScrollRestoration } from "react-router";
import type { ReactNode } from "react";
import { respond } from "@rep/gateway/server";
import type { Route } from "./+types/root";

/** In development, the plugin for Vite does all of this; a build that prerenders pages has no values. */
const isOff = import.meta.env.DEV ||
  process.env["IS_RR_BUILD_REQUEST"] === "yes";

/** Answers `/rep/*`, and puts the configuration into pages. */
export const middleware: Route.MiddlewareFunction[] = [
  ({ request }, next) =>
    isOff ? next() : respond(request, next, {
      envFile: { path: "app.env", required: false },
    }),
];

export function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}

export default function App() {
  return <Outlet />;
}
